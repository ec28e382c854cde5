"""What a runtime knows a model by: its name, or with namespaces the repository that holds it and its name. Pure.

Rule 1: without namespaces a key is the name. With them two repositories may hold models of one name, by two keys.
Rule 2: a client says a name, never a key. A name that stands for several models is refused in Triton's words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from trilith.errors import InvalidInput

_BETWEEN: Final = "\0"  # neither a path nor a name has one


def key_of(namespace: str, name: str) -> str:
    """The key of a model. `namespace`: the repository as it was given; "" for none."""
    return f"{namespace}{_BETWEEN}{name}" if namespace else name


def name_of(key: str) -> str:
    """The name in a key."""
    return key.rpartition(_BETWEEN)[2]


def namespace_of(key: str) -> str:
    """The repository in a key, or ""."""
    return key.rpartition(_BETWEEN)[0]


def keys_of(name: str, known: Collection[str]) -> list[str]:
    """Those of the known keys that a name stands for, by their namespaces."""
    return sorted(key for key in known if name_of(key) == name)


def in_order(keys: Iterable[str]) -> list[str]:
    """By name, and those of one name by their namespaces."""
    return sorted(keys, key=lambda key: (name_of(key), namespace_of(key)))


def shown(key: str) -> str:
    """A key for the log: `'m'`, or `'m' of /models/a`."""
    namespace = namespace_of(key)
    return f"'{name_of(key)}'" + (f" of {namespace}" if namespace else "")


def ambiguous(name: str, count: int) -> InvalidInput:
    """The refusal of a name that stands for several models."""
    return InvalidInput(
        f"There are {count} identifiers of model '{name}' in global map, model namespace must be provided to resolve "
        "ambiguity. A request cannot name one: have one of them unloaded or renamed"
    )
