"""What has named fields in Python: dataclasses, pydantic models, TypedDicts, NamedTuples."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, NamedTuple

from trilith.service.signature import resolve_hints

_REQUIRED_WORDS = (typing.Required, typing.NotRequired)


class ClassField(NamedTuple):
    """One field.

    Attributes:
        attribute: its name.
        key: the name by which the class is made from a dict.
        annotation: its type.
        has_default: it may be left out.
    """

    attribute: str
    key: str
    annotation: Any
    has_default: bool


def class_fields(annotation: Any) -> list[ClassField] | None:
    """The fields of a class, in order; None when it is none that has such.

    Raises:
        NameError: an annotation names what is not defined.
    """
    if not isinstance(annotation, type):
        return None
    if hasattr(annotation, "__pydantic_fields__") and not dataclasses.is_dataclass(annotation):
        return _of_model(annotation)
    if dataclasses.is_dataclass(annotation):
        return _of_dataclass(annotation)
    if hasattr(annotation, "__required_keys__"):  # of typing or of typing_extensions
        hints, required = resolve_hints(annotation), annotation.__required_keys__
        return [ClassField(name, name, _bare_word(hint), name not in required) for name, hint in hints.items()]
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        hints = resolve_hints(annotation)
        names, defaults = annotation._fields, annotation._field_defaults  # type: ignore[attr-defined]
        return [ClassField(name, name, hints.get(name, Any), name in defaults) for name in names]
    return None


def _of_dataclass(target: type) -> list[ClassField]:
    hints = resolve_hints(target)
    missing = dataclasses.MISSING
    return [
        ClassField(
            field.name,
            field.name,
            hints[field.name],
            field.default is not missing or field.default_factory is not missing,
        )
        for field in dataclasses.fields(target)
        if field.init
    ]


def _of_model(target: Any) -> list[ClassField]:
    found = []
    for name, field in target.__pydantic_fields__.items():
        alias = field.validation_alias if isinstance(field.validation_alias, str) else field.alias
        found.append(ClassField(name, alias or name, field.annotation, not field.is_required()))
    return found


def _bare_word(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) in _REQUIRED_WORDS else hint
