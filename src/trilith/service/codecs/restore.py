"""Values that came in native encoding, made what the annotation says: an array stays, a dataclass is built again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilith.errors import InvalidInput
from trilith.service.codecs import special
from trilith.service.codecs.checks import checker, wrong_part
from trilith.service.codecs.files import RequestFolder
from trilith.service.kinds import Kind, ValueType, shown_type

Restore = Callable[[Any, RequestFolder | None], Any]
"""From what `native.unpack` gives, and a folder for files, to the declared type. Raises InvalidInput."""


def restorer(value: ValueType, where: str) -> Restore:
    """How values of a type are restored. Built once for each parameter and result.

    Args:
        value: the type.
        where: `Ocr.read: parameter 'image'`, for messages.

    Raises:
        InvalidConfig: the type cannot be restored at all.
    """
    if value.kind is Kind.JSON or (value.metadata and value.kind is not Kind.FILE):
        return _plain(value, where) if value.plain else _validated(value, where)
    one = _special(value, where)
    if not value.many and not value.optional:
        return one
    return _many_or_none(value, one, where)


def _plain(value_type: ValueType, where: str) -> Restore:
    fits = checker(value_type.annotation)

    def restore(value: Any, folder: RequestFolder | None) -> Any:
        if not fits(value):
            raise InvalidInput(f"{where}: {wrong_part(value_type.annotation, value)}")
        return value

    return restore


def _validated(value_type: ValueType, where: str) -> Restore:
    from trilith.service.codecs import types

    validator = types.value_validator(types.adapter_of(value_type.annotation, where))

    def restore(value: Any, folder: RequestFolder | None) -> Any:
        return types.read_value(validator, value, where)

    return restore


def _many_or_none(value_type: ValueType, one: Restore, where: str) -> Restore:
    shown = shown_type(value_type.annotation)

    def restore(value: Any, folder: RequestFolder | None) -> Any:
        if value is None and value_type.optional:
            return None
        if not value_type.many:
            return one(value, folder)
        if not isinstance(value, list):
            raise InvalidInput(f"{where}: expected {shown}, got {type(value).__name__}")
        return [one(item, folder) for item in value]

    return restore


def _special(value_type: ValueType, where: str) -> Restore:
    def taken(value: Any, folder: RequestFolder | None) -> Any:
        try:
            return special.take(value, value_type)
        except InvalidInput as error:
            raise type(error)(f"{where}: {error.message}") from error

    def saved(value: Any, folder: RequestFolder | None) -> Any:
        if not isinstance(value, bytes):
            raise InvalidInput(f"{where}: expected bytes, got {type(value).__name__}")
        return value if folder is None else folder.save(value, None)

    return saved if value_type.kind is Kind.FILE else taken
