"""Options of commands that have several targets: `VALUE` is for all of them, `NAME=VALUE` for one alone.

Rule: only the name of a target makes a prefix. `x=1.json` is a file unless a target is called x.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trilith.errors import InvalidConfig

_NAMED: Final = re.compile(r"([A-Za-z][\w.-]*)=(.+)", re.DOTALL)
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def named_targets(targets: Sequence[str]) -> list[tuple[str, str]]:
    """Name and URL of each: `after=http://...`, else the letters A, B, C in order.

    Raises:
        InvalidConfig: there are more than the alphabet has letters, or two have one name.
    """
    if len(targets) > len(_LETTERS):
        raise InvalidConfig(f"expected at most {len(_LETTERS)} targets, got {len(targets)}")
    found = []
    for letter, target in zip(_LETTERS, targets, strict=False):
        match = _NAMED.fullmatch(target)
        found.append((match[1], match[2]) if match else (letter, target))
    names = [name for name, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidConfig(f"two targets are called {twice[0]}; give each a name of its own: NAME=URL")
    return found


def values_of(name: str, names: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
    """The values that hold for one target: its own where it has some, else those for all."""
    own, common = [], []
    for value in values:
        match = _NAMED.fullmatch(value)
        if match and match[1] in names:
            own += [match[2]] if match[1] == name else []
        else:
            common.append(value)
    return tuple(own or common)


def value_of(option: str, name: str, names: Sequence[str], values: Sequence[str]) -> str | None:
    """As `values_of`, where a target has one value at most.

    Raises:
        InvalidConfig: it has several.
    """
    found = values_of(name, names, values)
    if len(found) > 1:
        raise InvalidConfig(f"{option} is given {len(found)} times for {name}: {', '.join(found)}; one is enough")
    return found[0] if found else None
