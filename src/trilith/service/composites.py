"""Results of several parts: a tuple, dataclass, TypedDict, model or dict that has arrays, images or files in it.

Rule: one level is looked at. What lies deeper in a part is JSON, with base64 text for what JSON has no word for.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, Required

from typing_extensions import is_typeddict

from trilith.service.kinds import Kind, ValueType, bare, read_type

EVERY: Final = "*"
"""Names the type of all values of a mapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """What such a result is made of.

    Attributes:
        form: `tuple`; `object` (fields of a class, or keys of a TypedDict); `mapping` (a dict of any keys).
        fields: types by name; `0`, `1` ... of a tuple; `EVERY` of a mapping.
    """

    form: Literal["tuple", "object", "mapping"]
    fields: dict[str, ValueType]

    def parts(self, value: Any) -> list[tuple[str, ValueType, Any]]:
        """Name, type and value of each part of a result."""
        if self.form == "tuple":
            return [(name, one, value[int(name)]) for name, one in self.fields.items()]
        if self.form == "mapping":
            return [(name, self.fields[EVERY], part) for name, part in value.items()]
        if isinstance(value, dict):
            return [(name, one, value[name]) for name, one in self.fields.items() if name in value]
        return [(name, one, getattr(value, name)) for name, one in self.fields.items()]


def composite_of(annotation: Any) -> Composite | None:
    """The parts of a type; None when it is none of these, or has nothing in it that is not JSON."""
    inner = bare(annotation)
    found = _fields(inner)
    if found is None:
        return None
    form, annotations = found
    fields = {name: read_type(each) for name, each in annotations.items()}
    return Composite(form=form, fields=fields) if any(one.kind is not Kind.JSON for one in fields.values()) else None


def _fields(inner: Any) -> tuple[Literal["tuple", "object", "mapping"], dict[str, Any]] | None:
    origin, arguments = typing.get_origin(inner), typing.get_args(inner)
    if origin is tuple:
        if Ellipsis in arguments:
            return None
        return "tuple", {str(at): one for at, one in enumerate(arguments)}
    if origin is dict and arguments[0] is str:
        return "mapping", {EVERY: arguments[1]}
    if not isinstance(inner, type):
        return None
    if dataclasses.is_dataclass(inner) or is_typeddict(inner) or hasattr(inner, "__pydantic_fields__"):
        try:
            hints = typing.get_type_hints(inner, include_extras=True)
        except NameError:  # of a class that nobody can look into; what is wrong with it is said elsewhere
            return None
        return "object", {name: _unwrapped(hint) for name, hint in hints.items() if _is_field(inner, name)}
    return None


def _is_field(owner: Any, name: str) -> bool:
    if dataclasses.is_dataclass(owner):
        return name in {field.name for field in dataclasses.fields(owner)}
    fields = getattr(owner, "__pydantic_fields__", None)
    return fields is None or name in fields


def _unwrapped(hint: Any) -> Any:
    """The type inside `Required[...]` or `NotRequired[...]`."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (Required, NotRequired) else hint
