"""How values of one annotation and one type of a `.proto` become each other: what all kinds of them have in common."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trilith.service.codecs.files import RequestFolder
from trilith.service.signature import union_members

Read = Callable[[Any, RequestFolder | None], Any]
"""From what protobuf gives, and a folder for files, to Python. Raises InvalidInput."""
Write = Callable[[Any], Any]
"""From Python to what the constructors of messages take. Raises TypeError, ValueError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Both directions.

    Attributes:
        read: None where protobuf's own value will do.
        write: None where the constructors of messages take the value as it is.
        sure: what is read is of the annotated type. Otherwise it is what builtins can say of it (a model's fields as a
            dict), and the annotation's validator has a look.
    """

    read: Read | None = None
    write: Write | None = None
    sure: bool = False


class Unlike(Exception):
    """An annotation and a type that have nothing in common. The text says why, where that is not plain."""


class Mismatch(Exception):
    """The same, with all names in it: a sentence for the person who wrote both."""


def bare(annotation: Any) -> Any:
    """The annotation without `Annotated` and `NewType`."""
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            return annotation


def is_anything(annotation: Any) -> bool:
    """Whether every value is of that type."""
    return annotation is Any or annotation is object


def without_none(annotation: Any) -> tuple[Any, bool]:
    """The annotation without None, and whether it allowed that."""
    members = union_members(bare(annotation))
    if members is None or type(None) not in members:
        return annotation, annotation in (None, type(None))
    others = tuple(member for member in members if member is not type(None))
    return (others[0] if len(others) == 1 else typing.Union[others]), True  # noqa: UP007  built from a tuple
