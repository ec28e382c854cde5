"""One value that is a body, or a part of a form: bytes, with what their sender says they are.

Rule: what the bytes are decides; what the sender says must agree, where a method declares what it takes.
"""

from __future__ import annotations

import pathlib
from typing import Any, Final

import msgspec

from trilith.errors import InvalidInput
from trilith.service.codecs import media
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.native import Buffer
from trilith.service.constraints import ContentType
from trilith.service.kinds import Kind, ValueType

_NPY_MARK: Final = b"\x93NUMPY"
_FRAME_MARKS: Final = {b"PAR1": media.PARQUET, b"ARRO": media.ARROW_FILE, b"\xff\xff\xff\xff": media.ARROW}
_FRAME_ENDINGS: Final = {
    ".csv": media.CSV,
    ".parquet": media.PARQUET,
    ".arrow": media.ARROW_FILE,
    ".feather": media.ARROW_FILE,
    ".arrows": media.ARROW,
}


def read_part(
    one: ValueType,
    body: Buffer,
    *,
    filename: str | None = None,
    content_type: str = "",
    folder: RequestFolder | None = None,
) -> Any:
    """A value of a kind other than JSON.

    Args:
        one: its type.
        body: the part.
        filename: the client's; None for none.
        content_type: the client's, with its parameters; "" for none.
        folder: where a file goes.

    Raises:
        InvalidInput: it is not of that type.
        UnsupportedMediaType: it is a file of another type than declared.
    """
    if one.kind is Kind.ARRAY:
        return _array(one, body)
    if one.kind is Kind.FRAME:
        return _frame(one, body, filename, content_type)
    raw = body if isinstance(body, bytes) else bytes(body)
    if isinstance(one.constraint, ContentType):
        from trilith.service.codecs.contents import check_content

        content_type = check_content(one.constraint, raw, said=content_type, filename=filename)
    if one.kind is Kind.BYTES:
        return raw
    if one.kind is Kind.FILE:
        return (RequestFolder() if folder is None else folder).save(raw, filename, content_type)
    from trilith.service.codecs import images

    return images.decode_image(raw)


def _array(one: ValueType, body: Buffer) -> Any:
    from trilith.service.codecs import arrays, tensors

    if bytes(body[: len(_NPY_MARK)]) == _NPY_MARK:
        return tensors.take(arrays.from_npy(body if isinstance(body, bytes) else memoryview(body)), one)
    try:
        found = arrays.from_nested(msgspec.json.decode(body), one.dtype)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("expected an array as nested lists in JSON, or a .npy file") from error
    return tensors.of_nested(found, one)


def _frame(one: ValueType, body: Buffer, filename: str | None, content_type: str) -> Any:
    from trilith.service.codecs import frames

    kind = media.media_type(content_type)
    if kind not in media.FRAMES:
        ending = pathlib.PurePosixPath(filename or "").suffix.lower()
        kind = _FRAME_MARKS.get(bytes(body[:4])) or _FRAME_ENDINGS.get(ending, "")
    if kind:
        view = body if isinstance(body, bytes) else memoryview(body)
        return frames.from_file(view, kind, one, charset=media.charset(content_type))
    try:
        return frames.from_json(msgspec.json.decode(body), one)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("expected a frame as JSON, or as a CSV, Parquet or Arrow file") from error
