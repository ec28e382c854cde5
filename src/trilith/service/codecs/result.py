"""The result of a method becomes the body of an answer.

Rule: a value that is not of the declared type is a `TypeError` that says what was declared and what came: the service
is wrong then, not its caller. It is looked at before it is written, in every encoding (`checks.py` for JSON types).
"""

from __future__ import annotations

import dataclasses
import inspect
import mimetypes
import pathlib
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.errors import InvalidConfig, InvalidInput, NotAcceptable
from trilith.service.codecs import answers, media, native, special
from trilith.service.codecs.checks import Check, checker, unwritten_part, wrong_part
from trilith.service.codecs.mismatch import ResultMismatch
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.restore import restorer
from trilith.service.composites import Composite, composite_of
from trilith.service.constraints import ContentType
from trilith.service.kinds import BINARY_KINDS, Kind, ValueType, shown_type
from trilith.service.signature import MethodSignature

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

    from trilith.service.codecs.types import Adapter

_NOT_WRITTEN: Final = (TypeError, ValueError, AttributeError, OverflowError, OSError, RecursionError, InvalidInput)
_SHOWN_ACCEPT: Final = 100
_LARGE_BYTES: Final = 64 * 1024

Encoded = tuple[str, list[Buffer]]
"""Content type and body."""


def _numpy_scalar(value: Any) -> Any:
    """numpy's scalars in a plain result: what they are in Python. Everything else is not of the declared type."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == () and type(found := item()) is not type(value):
        return found
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
        self._offered = offered_types(result)
        self._composite = composite_in(result)
        self._parts: dict[int, ResultEncoder] = {}
        if result.plain:
            self._fits = checker(result.annotation)
            self._plain = msgspec.json.Encoder(enc_hook=_numpy_scalar).encode

    def heavy(self, value: Any) -> bool:
        """Whether writing that result is better done off the event loop."""
        if self._plain is not None:
            return False
        kind = self._result.kind
        if kind is Kind.ARRAY:
            return (
                sum(getattr(one, "nbytes", 0) for one in (value if isinstance(value, list) else (value,)))
                > _LARGE_BYTES
            )
        return kind in (Kind.IMAGE, Kind.FILE, Kind.FRAME) or self._composite is not None

    def check_accept(self, accept: str | None) -> None:
        """Looks at a client's `Accept` before its method runs.

        Raises:
            NotAcceptable: it has none of the types that results are written as.
        """
        if accept is not None and not media.accepted(accept, self._offered):
            raise NotAcceptable(
                f"{self._where} answers with {', '.join(self._offered)}; Accept has {accept[:_SHOWN_ACCEPT]}"
            )

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
            if accept is not None and media.preferred(accept, self._offered) == media.TEXT:
                return media.PLAIN_TEXT, [self._text(value)]
            return media.JSON, [self.encode_plain(value)]
        try:
            return self._encode(self._checked(value), accept)
        except _NOT_WRITTEN as error:
            raise ResultMismatch(self._mismatch(value, error)) from error

    def _text(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise ResultMismatch(self._mismatch(value, wrong_part(self._result.annotation, value)))
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ResultMismatch(self._mismatch(value, error)) from error

    def encode_plain(self, value: Any) -> bytes:
        """The answer as JSON, where `plain`.

        Raises:
            TypeError: the value is not of the declared type.
        """
        if not self._fits(value):  # type: ignore[misc]  # the caller saw that it is there
            raise ResultMismatch(self._mismatch(value, wrong_part(self._result.annotation, value)))
        try:
            return self._plain(value)  # type: ignore[misc]
        except _NOT_WRITTEN as error:
            where = unwritten_part(value) if isinstance(error, TypeError) else ""
            raise ResultMismatch(self._mismatch(value, where or error)) from error

    def encode_native(self, value: Any) -> list[Buffer]:
        """The answer to another service.

        Raises:
            TypeError: the value contains a type that cannot be sent.
        """
        try:
            checked = self._checked(value)
            if self._composite is not None:
                checked = self._with_contents(self._composite, checked)
            elif self._result.kind is Kind.FILE and checked is not None:
                checked = [_content(one) for one in checked] if self._result.many else _content(checked)
            return native.pack(checked)
        except _NOT_WRITTEN as error:
            raise ResultMismatch(self._mismatch(value, error)) from error

    def checked(self, value: Any) -> Any:
        """The value, when it is of the declared type; an array in the declared dtype.

        Raises:
            TypeError: it is not.
        """
        try:
            return self._checked(value)
        except _NOT_WRITTEN as error:
            raise ResultMismatch(self._mismatch(value, error)) from error

    @staticmethod
    def _with_contents(composite: Composite, value: Any) -> Any:
        """The value with the content of files in their place: a path means nothing to another process."""
        if all(one.kind is not Kind.FILE for one in composite.fields.values()):
            return value
        found = {}
        for name, one, part in composite.parts(value):
            if one.kind is Kind.FILE and part is not None:
                part = [_content(each) for each in part] if one.many else _content(part)
            found[name] = part
        return list(found.values()) if composite.form == "tuple" else found

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
            self._read(value)
            return value
        if value is None and result.optional:
            return None
        if not result.many:
            return self._special(value)
        if not isinstance(value, list | tuple):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        return [self._special(one) for one in value]

    def _read(self, value: Any) -> Any:
        """The value as its type reads it: a model where it is the dict of one.

        Raises:
            InvalidInput: it is not of that type.
        """
        from trilith.service.codecs import types

        if self._validator is None:
            self._validator = types.value_validator(self._json_adapter())
        return types.read_value(self._validator, value, "the result")

    def _special(self, value: Any) -> Any:
        """One value that is not JSON, checked; a frame as a table, a tensor as an array."""
        if self._result.kind is Kind.ARRAY:
            from trilith.service.codecs import tensors

            return tensors.as_array(value, self._result)
        if self._result.kind is Kind.FRAME:
            from trilith.service.codecs import frames

            return frames.result_table(value, self._result)
        return special.take(value, self._result)

    def _mismatch(self, value: Any, error: Exception | str) -> str:
        declared = shown_type(self._result.annotation)
        if inspect.isawaitable(value):
            if isinstance(value, Coroutine):
                value.close()  # or Python would complain, too, that it was never awaited
            return (
                f"{self._where} declares {declared} and returned what must be awaited: `await` is missing before a call"
                f" of a model, of another service or of an `async def`"
            )
        came = type(value).__name__
        if came == declared:
            return f"{self._where} returned a {came} that cannot be sent: {error}"
        return f"{self._where} returned {came} and declares {declared}: {error}"

    def _json_adapter(self) -> Adapter:
        if self._adapter is None:
            from trilith.service.codecs import types

            self._adapter = types.adapter_of(self._result.annotation, f"{self._where}: the result")
        return self._adapter

    def _encode(self, value: Any, accept: str | None) -> Encoded:
        kind = self._result.kind
        offered = self._offered
        chosen = media.preferred(accept, offered)
        if chosen == media.FORM and self._composite is not None:
            return answers.encode_parts(self._composite, value, self._part_writer(accept))
        if value is None or self._result.many or chosen == media.JSON:
            return media.JSON, [self._as_json(value)]
        if kind is Kind.ARRAY:
            from trilith.service.codecs import arrays

            return media.NPY, [arrays.to_npy(value)]
        if kind is Kind.FRAME:
            from trilith.service.codecs import table_files

            return chosen, [table_files.to_file(value, chosen)]
        if kind is Kind.IMAGE:
            from trilith.service.codecs import images

            chosen, file = images.encode_image(value, chosen)
            return chosen, [file]
        if kind is Kind.BYTES:
            return chosen, [memoryview(value)]
        path = pathlib.Path(value)
        exact = offered[0] if offered[0] != media.BINARY else None
        return exact or mimetypes.guess_type(path.name)[0] or media.BINARY, [path.read_bytes()]

    def _part_writer(self, accept: str | None) -> answers.Write:
        """Writes single values of parts. Arrays and frames are what `Accept` asks for, images and files are files."""
        files = ",".join(one for one in (accept or "").split(",") if not media.is_json(media.media_type(one)))

        def write(one: ValueType, value: Any) -> Encoded:
            encoder = self._parts.get(id(one))
            if encoder is None:
                single = dataclasses.replace(one, many=False)
                encoder = self._parts[id(one)] = ResultEncoder(single, "a part")
            return encoder.encode(value, files if one.kind in BINARY_KINDS else accept)

        return write

    def _as_json(self, value: Any) -> bytes:
        if self._result.kind is Kind.ARRAY and value is not None:
            from trilith.service.codecs import arrays

            return arrays.to_json(value)
        if self._result.kind is Kind.FRAME:
            from trilith.service.codecs import frames

            return frames.to_json_bytes(value, self._result)
        from trilith.service.codecs import types

        try:
            return types.write_json(self._json_adapter(), value)
        except TypeError:
            # A dict for a model, say, which reads as one: only then is what was read worth its second reading.
            read = self._read(value)
            if read is value:
                raise
        return types.write_json(self._json_adapter(), read)


def offered_types(result: ValueType) -> Sequence[str]:
    """The content types that a result can be written as, the default first."""
    if result.annotation is str:
        return (media.JSON, media.TEXT)
    if result.many or result.kind is Kind.JSON:
        return (media.JSON,) if composite_in(result) is None else (media.JSON, media.FORM)
    if result.kind is Kind.ARRAY:
        return (media.JSON, media.NPY)
    if result.kind is Kind.FRAME:
        return (media.JSON, *media.FRAMES)
    declared = result.constraint if isinstance(result.constraint, ContentType) else None
    if result.kind is Kind.IMAGE:
        written = ("image/png", "image/jpeg", "image/webp", "image/tiff")
        fitting = [one for one in written if declared is None or declared.fits(one)]
        if not fitting:
            raise InvalidConfig(f"an image is written as {', '.join(written)}; none of them is {declared}")
        return (*fitting, media.JSON)
    exact = media.BINARY if declared is None else declared.exact or media.BINARY
    return (exact, media.JSON) if result.kind is Kind.BYTES else (exact,)


def composite_in(result: ValueType) -> Composite | None:
    """The parts of a result that has several, and something other than JSON in one of them."""
    return None if result.kind is not Kind.JSON or result.plain else composite_of(result.annotation)


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
