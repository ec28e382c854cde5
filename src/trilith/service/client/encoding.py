"""Arguments to a request's body, and an answer's body to a value. No HTTP library is known here."""

from __future__ import annotations

import base64
import dataclasses
import mimetypes
import pathlib
import sys
from typing import Any, Final

import msgspec

from trilith.errors import InvalidInput, TrilithError, error_from_code
from trilith.service.client.operations import Operation, Parameter, Part, Result
from trilith.service.codecs import media, multipart
from trilith.service.codecs.answers import unquoted
from trilith.service.codecs.multipart import parse_form
from trilith.service.composites import EVERY
from trilith.service.kinds import Kind, ValueType
from trilith.wire.http_status import error_of_status
from trilith.wire.stream_formats import JSON_LINES, line

FileField = tuple[str, tuple[str | None, bytes, str]]
"""A field's name, and its file name, bytes and content type."""

_TAKES: Final = {
    "image": "a PIL image, bytes, or a pathlib.Path",
    "bytes": "bytes, or a pathlib.Path",
    "file": "a pathlib.Path, or bytes",
    "frame": "a frame of pandas, a table of pyarrow, or a pathlib.Path",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What to send: either `content` with its type, or `fields` of a form; or a stream of `items` and a query."""

    accept: str
    content: bytes = b""
    content_type: str = ""
    fields: tuple[FileField, ...] = ()
    items: Any = None
    query: tuple[tuple[str, str], ...] = ()


def encode_arguments(operation: Operation, arguments: dict[str, Any]) -> Body:
    """The body of a call.

    Args:
        operation: the method.
        arguments: those that the caller gave, by name.

    Raises:
        InvalidInput: an argument is of a type that cannot be sent.
    """
    accept = _accept(operation)
    if operation.taken is not None:
        return _stream(operation, operation.taken, arguments, accept)
    parameters = {one.name: _as_given(one, arguments.get(one.name)) for one in operation.parameters}
    binary = {name for name, value in arguments.items() if value is not None and _is_binary(parameters[name], value)}
    try:
        if len(arguments) == 1 and len(binary) == 1:
            [(name, value)] = arguments.items()
            if name in (operation.raw, operation.npy, operation.frame) and parameters[name].kind != "file":
                _, content, content_type = _as_file(parameters[name], value)
                return Body(accept=accept, content=content, content_type=content_type)
        if binary:
            fields = [field for name, value in arguments.items() for field in _fields(parameters[name], value)]
            return Body(accept=accept, fields=tuple(fields))
        value = next(iter(arguments.values())) if operation.root and arguments else arguments
        return Body(accept=accept, content=_json(value), content_type=media.JSON)
    except (TypeError, ValueError, OSError) as error:
        raise InvalidInput(f"{operation.method}: an argument cannot be sent: {error}") from error


def _stream(operation: Operation, taken: Parameter, arguments: dict[str, Any], accept: str) -> Body:
    others = {name: value for name, value in arguments.items() if name != taken.name}
    try:
        query = tuple(
            (name, value if isinstance(value, str) else _json(value).decode()) for name, value in others.items()
        )
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{operation.method}: an argument cannot be sent: {error}") from error
    raw = media.BINARY in operation.accepts
    return Body(
        accept=accept,
        content_type=media.BINARY if raw else JSON_LINES,
        items=arguments[taken.name],
        query=query,
    )


def encode_item(operation: Operation, value: Any) -> bytes:
    """One item of the stream that a method takes.

    Raises:
        InvalidInput: it is of a type that cannot be sent.
    """
    try:
        if media.BINARY in operation.accepts:
            return bytes(value)
        return line(_json(value))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{operation.method}: an item cannot be sent: {error}") from error


def _accept(operation: Operation) -> str:
    if operation.result.form and media.FORM in operation.offers:
        return f"{media.FORM}, {media.NPY};q=0.9, {media.ARROW};q=0.9, {media.JSON};q=0.5"
    if media.NPY in operation.offers and not operation.result.many:
        return f"{media.NPY}, {media.JSON};q=0.5"
    if media.ARROW in operation.offers and not operation.result.many:
        return f"{media.ARROW}, {media.JSON};q=0.5"
    return f"{operation.offers[0]}, */*;q=0.5" if operation.offers else "*/*"


def _as_given(parameter: Parameter, value: Any) -> Parameter:
    """The parameter; where a file may stand instead of JSON, and one does, as one of files."""
    if not parameter.upload:
        return parameter
    image = sys.modules.get("PIL.Image")
    files = (pathlib.PurePath, bytes, bytearray, memoryview, *(() if image is None else (image.Image,)))
    return msgspec.structs.replace(parameter, kind=parameter.upload) if isinstance(value, files) else parameter


def _is_binary(parameter: Parameter, value: Any) -> bool:
    if parameter.kind == "array":
        numpy = sys.modules.get("numpy")
        items = value if parameter.many and isinstance(value, list) else [value]
        return numpy is not None and all(isinstance(item, numpy.ndarray) for item in items)
    if parameter.kind == "frame":
        items = value if parameter.many and isinstance(value, list) else [value]
        return all(_is_frame(item) or isinstance(item, pathlib.PurePath) for item in items)
    return parameter.kind != "json"


def _is_frame(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("pandas", "pyarrow")


def _fields(parameter: Parameter, value: Any) -> list[FileField]:
    if value is None:
        if parameter.default is None:
            return []
        raise TypeError(f"{parameter.name}: a form cannot say None; leave the argument out")
    if parameter.kind == "json" or not _is_binary(parameter, value):
        return [(parameter.name, (None, _json(value), media.JSON))]
    if parameter.many and not isinstance(value, list | tuple):
        raise TypeError(f"{parameter.name}: takes a list, got {type(value).__name__}")
    values = value if parameter.many else [value]
    return [(parameter.name, _as_file(parameter, item)) for item in values]


def _as_file(parameter: Parameter, value: Any) -> tuple[str | None, bytes, str]:
    if isinstance(value, pathlib.PurePath):
        path = pathlib.Path(value)
        return path.name, path.read_bytes(), mimetypes.guess_type(path.name)[0] or media.BINARY
    if isinstance(value, bytes | bytearray | memoryview):
        return parameter.name, bytes(value), "image/*" if parameter.kind == "image" else media.BINARY
    if parameter.kind == "array":
        from trilith.service.codecs import arrays

        return f"{parameter.name}.npy", arrays.to_npy(value), media.NPY
    if parameter.kind == "frame":
        from trilith.service.codecs import frames, table_files

        return f"{parameter.name}.arrows", table_files.to_file(frames.to_table(value), media.ARROW), media.ARROW
    if parameter.kind == "image" and "PIL.Image" in sys.modules:
        from trilith.service.codecs import images

        if images.is_image(value):
            content_type, file = images.encode_image(value)
            return f"{parameter.name}.{content_type.partition('/')[2]}", file, content_type
    given, hint = (
        type(value).__name__,
        "; a file's name is given as pathlib.Path(...)" if isinstance(value, str) else "",
    )
    raise TypeError(f"{parameter.name}: takes {_TAKES[parameter.kind]}, got {given}{hint}")


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """JSON types of what msgspec does not know."""
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json", by_alias=True)
    numpy, image = sys.modules.get("numpy"), sys.modules.get("PIL.Image")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        found = value.tolist()
        if not isinstance(found, numpy.generic):  # as the widest numbers are, which Python has not
            return found
    if _is_frame(value):
        from trilith.service.codecs import frames

        return frames.to_json(value)
    if image is not None and isinstance(value, image.Image):
        from trilith.service.codecs import images

        return base64.b64encode(images.encode_image(value)[1]).decode()
    raise TypeError(f"{type(value).__name__} is no JSON type")


def decode_answer(operation: Operation, content_type: str, body: bytes) -> Any:
    """The result of a call."""
    result = operation.result
    if result.form and media.media_type(content_type) == media.FORM:
        return _of_parts(result, parse_form(content_type, body))
    return _value(result, content_type, body)


def _of_parts(result: Result, parts: list[multipart.Part]) -> Any:
    """The value of an answer of several parts: a tuple, or a dict."""
    grouped: dict[str, list[multipart.Part]] = {}
    for part in parts:
        grouped.setdefault(unquoted(part.name), []).append(part)
    names = list(grouped) if result.form == "mapping" else list(result.parts)
    found = {}
    for name in names:
        one, given = result.parts[EVERY if result.form == "mapping" else name], grouped.get(name, [])
        values = [_value(msgspec.structs.replace(one, many=False), part.content_type, part.body) for part in given]
        if one.many:
            found[name] = None if values == [None] else values
        elif values:
            found[name] = values[0]
    return tuple(found.values()) if result.form == "tuple" else found


def _value(result: Part, content_type: str, body: bytes) -> Any:
    kind = media.media_type(content_type)
    if kind == media.NPY and result.kind == "array":
        from trilith.service.codecs import arrays

        return arrays.from_npy(body)
    if kind in media.FRAMES and result.kind == "frame":
        from trilith.service.codecs import frames, table_files

        return frames.from_table(table_files.from_file(body, kind, None), result.library or "dataframe")
    if media.is_json(kind) and result.kind not in ("bytes", "file"):
        value = msgspec.json.decode(body)
        if value is None or result.kind == "json":
            return value
        return [_special(item, result) for item in value] if result.many else _special(value, result)
    if media.is_json(kind) and (result.many or body == b"null"):
        value = msgspec.json.decode(body)
        return value if value is None else [_special(item, result) for item in value]
    if kind.startswith("image/") and result.kind == "image":
        from trilith.service.codecs import images

        return images.decode_image(body)
    return body


def _special(value: Any, result: Part) -> Any:
    if result.kind == "array":
        from trilith.service.codecs import arrays

        return arrays.from_nested(value, result.dtype)
    if result.kind == "frame":
        from trilith.service.codecs import frames

        one = ValueType(annotation=None, kind=Kind.FRAME, library=result.library or "dataframe")
        return frames.from_json(value, one)
    raw = base64.b64decode(value)
    if result.kind == "image":
        from trilith.service.codecs import images

        return images.decode_image(raw)
    return raw


def is_told(body: bytes) -> bool:
    """Whether a body is an error as Trilith tells it: other servers have statuses too."""
    try:
        return "code" in msgspec.json.decode(body)["error"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return False


def decode_error(status: int, body: bytes, retry_after: str | None) -> TrilithError:
    """The error that an answer of a status of 400 or above tells."""
    retry_after_s = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    try:
        whole = msgspec.json.decode(body)
        told = whole["error"]
        if isinstance(told, str):  # as the endpoints of models tell it
            told = {**whole, "message": told}
        error = error_from_code(str(told["code"]), str(told["message"]), retry_after_s=retry_after_s)
        error.request_id = str(told.get("request_id", ""))
        return error
    except (msgspec.DecodeError, KeyError, TypeError):
        # Not one of ours: a proxy's page, say.
        text = body[:200].decode("utf-8", "replace")
        return error_of_status(status, f"the server answered {status}: {text}", retry_after_s=retry_after_s)
