"""The result of a method becomes the body of an answer.

Rule: a value that is not of the declared type is a `TypeError` that says what was declared and what came: the service
is wrong then, not its caller. It is looked at before it is written, in every encoding (`checks.py` for JSON types).
"""

from __future__ import annotations

import mimetypes
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.errors import InvalidInput
from trilith.service.codecs import media, native
from trilith.service.codecs.checks import Check, checker, unwritten_part, wrong_part
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.restore import restorer
from trilith.service.signature import Kind, MethodSignature, ValueType, shown_type

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

    from trilith.service.codecs.types import Adapter

_NOT_WRITTEN: Final = (TypeError, ValueError, AttributeError, OverflowError, OSError, RecursionError, InvalidInput)
_WANTED: Final = {Kind.IMAGE: "an image", Kind.BYTES: "bytes", Kind.FILE: "a path"}

_LARGE_BYTES: Final = 64 * 1024

Encoded = tuple[str, list[Buffer]]
"""Content type and body."""


def _numpy_scalar(value: Any) -> Any:
    """numpy's scalars in a plain result: what they are in Python. Everything else is not of the declared type."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return item()
    raise TypeError(f"{type(value).__name__} is no JSON type")


def _content(path: pathlib.PurePath) -> bytes:
    return pathlib.Path(path).read_bytes()


class ResultEncoder:
    """Writes the results of one method."""

    def __init__(self, result: ValueType, where: str) -> None:
        self._result = result
        self._where = where
        self._plain: Callable[[Any], bytes] | None = None
        self._adapter: Adapter | None = None
        self._validator: SchemaValidator | None = None
        self._fits: Check | None = None
        if result.plain:
            self._fits = checker(result.annotation)
            self._plain = msgspec.json.Encoder(enc_hook=_numpy_scalar).encode

    def heavy(self, value: Any) -> bool:
        """Whether writing that result is better done off the event loop."""
        kind = self._result.kind
        if kind is Kind.ARRAY:
            return (
                sum(getattr(one, "nbytes", 0) for one in (value if isinstance(value, list) else (value,)))
                > _LARGE_BYTES
            )
        return kind is Kind.IMAGE or kind is Kind.FILE

    @property
    def plain(self) -> bool:
        """Whether `encode_plain` writes every result of the method."""
        return self._plain is not None

    def prepare(self) -> None:
        """Builds the validator now.

        Raises:
            InvalidConfig: the type cannot be written.
        """
        if self._result.kind is Kind.JSON and not self._result.plain:
            self._json_adapter()

    def encode(self, value: Any, accept: str | None = None) -> Encoded:
        """The answer to an HTTP client.

        Args:
            value: what the method returned.
            accept: the client's `Accept` header.

        Raises:
            TypeError: the value is not of the declared type.
        """
        if self._plain is not None:
            return media.JSON, [self.encode_plain(value)]
        try:
            return self._encode(self._checked(value), accept)
        except _NOT_WRITTEN as error:
            raise TypeError(self._mismatch(value, error)) from error

    def encode_plain(self, value: Any) -> bytes:
        """The answer as JSON, where `plain`.

        Raises:
            TypeError: the value is not of the declared type.
        """
        if not self._fits(value):  # type: ignore[misc]  # the caller saw that it is there
            raise TypeError(self._mismatch(value, wrong_part(self._result.annotation, value)))
        try:
            return self._plain(value)  # type: ignore[misc]
        except _NOT_WRITTEN as error:
            where = unwritten_part(value) if isinstance(error, TypeError) else ""
            raise TypeError(self._mismatch(value, where or error)) from error

    def encode_native(self, value: Any) -> list[Buffer]:
        """The answer to another service.

        Raises:
            TypeError: the value contains a type that cannot be sent.
        """
        try:
            checked = self._checked(value)
            if self._result.kind is Kind.FILE and checked is not None:
                checked = [_content(one) for one in checked] if self._result.many else _content(checked)
            return native.pack(checked)
        except _NOT_WRITTEN as error:
            raise TypeError(self._mismatch(value, error)) from error

    def checked(self, value: Any) -> Any:
        """The value, when it is of the declared type; an array in the declared dtype.

        Raises:
            TypeError: it is not.
        """
        try:
            return self._checked(value)
        except _NOT_WRITTEN as error:
            raise TypeError(self._mismatch(value, error)) from error

    def _checked(self, value: Any) -> Any:
        """The value, when it is of the declared type; an array in the declared dtype.

        Raises:
            TypeError: it is not.
            InvalidInput: it is not.
        """
        result = self._result
        if result.plain:
            if self._fits is not None and not self._fits(value):
                raise TypeError(wrong_part(result.annotation, value))
            return value
        if result.kind is Kind.JSON:
            from trilith.service.codecs import types

            if self._validator is None:
                self._validator = types.value_validator(self._json_adapter())
            types.read_value(self._validator, value, "the result")
            return value
        if value is None and result.optional:
            return None
        if not result.many:
            return self._special(value)
        if not isinstance(value, list | tuple):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        return [self._special(one) for one in value]

    def _special(self, value: Any) -> Any:
        kind = self._result.kind
        if kind is Kind.ARRAY:
            from trilith.service.codecs import arrays

            return arrays.check_array(value, self._result.dtype)
        if kind is Kind.IMAGE:
            from trilith.service.codecs import images

            fits = images.is_image(value)
        elif kind is Kind.BYTES:
            fits = isinstance(value, bytes | bytearray | memoryview)
        else:
            fits = isinstance(value, pathlib.PurePath)
        if not fits:
            raise TypeError(f"expected {_WANTED[kind]}, got {type(value).__name__}")
        return value

    def _mismatch(self, value: Any, error: Exception | str) -> str:
        declared = shown_type(self._result.annotation)
        return f"{self._where} returned {type(value).__name__} and declares {declared}: {error}"

    def _json_adapter(self) -> Adapter:
        if self._adapter is None:
            from trilith.service.codecs import types

            self._adapter = types.adapter_of(self._result.annotation, f"{self._where}: the result")
        return self._adapter

    def _encode(self, value: Any, accept: str | None) -> Encoded:
        kind = self._result.kind
        offered = offered_types(self._result)
        chosen = media.preferred(accept, offered)
        if value is None or self._result.many or chosen == media.JSON:
            return media.JSON, [self._as_json(value)]
        if kind is Kind.ARRAY:
            from trilith.service.codecs import arrays

            return media.NPY, [arrays.to_npy(value)]
        if kind is Kind.IMAGE:
            from trilith.service.codecs import images

            chosen, file = images.encode_image(value, chosen)
            return chosen, [file]
        if kind is Kind.BYTES:
            return media.BINARY, [memoryview(value)]
        path = pathlib.Path(value)
        return mimetypes.guess_type(path.name)[0] or media.BINARY, [path.read_bytes()]

    def _as_json(self, value: Any) -> bytes:
        if self._result.kind is Kind.ARRAY and value is not None:
            from trilith.service.codecs import arrays

            return arrays.to_json(value)
        from trilith.service.codecs import types

        return types.write_json(self._json_adapter(), value)


def offered_types(result: ValueType) -> Sequence[str]:
    """The content types that a result can be written as, the default first."""
    if result.many or result.kind is Kind.JSON:
        return (media.JSON,)
    if result.kind is Kind.ARRAY:
        return (media.JSON, media.NPY)
    if result.kind is Kind.IMAGE:
        return ("image/png", "image/jpeg", "image/webp", "image/tiff", media.JSON)
    if result.kind is Kind.BYTES:
        return (media.BINARY, media.JSON)
    return (media.BINARY,)


class ResultDecoder:
    """Reads what another service answered in native encoding: the caller's side."""

    def __init__(self, signature: MethodSignature, where: str) -> None:
        self._restore = restorer(signature.result, f"{where}: the result")

    def decode(self, buffers: Sequence[Buffer]) -> Any:
        """The result, of the declared type.

        Raises:
            InvalidInput: it is not of that type.
        """
        return self._restore(native.unpack(buffers), None)
