"""An answer as a person looks at it, and as files: JSON and text in full, of the rest a line about it."""

from __future__ import annotations

import base64
import io
import math
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.service.client.operations import Operation
from trilith.service.codecs import media
from trilith.service.codecs.answers import unquoted
from trilith.service.codecs.multipart import Part, parse_form

if TYPE_CHECKING:
    from trilith.core.tensor import Array
    from trilith.service.client.raw import RawAnswer

TEXT: Final = "text/plain"
_SHOWN_NUMBERS: Final = 64
_SUFFIXES: Final = {
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".arrow": media.ARROW_FILE,
    ".arrows": media.ARROW,
    ".csv": media.CSV,
    ".json": media.JSON,
    ".npy": media.NPY,
    ".parquet": media.PARQUET,
    ".png": "image/png",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
}
_ENDINGS: Final = {
    media.JSON: ".json",
    media.NPY: ".npy",
    media.PARQUET: ".parquet",
    media.ARROW: ".arrows",
    media.ARROW_FILE: ".arrow",
    TEXT: ".txt",
    media.BINARY: ".bin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file's worth of an answer.

    Attributes:
        content_type: of the content.
        content: the file.
        shown: the value itself where it can be read, else a line about it.
        readable: which of the two `shown` is.
        name: of the part, where the answer has several.
    """

    content_type: str
    content: bytes
    shown: str
    readable: bool
    name: str = ""

    @property
    def ending(self) -> str:
        """What the name of such a file ends with."""
        return _ENDINGS.get(self.content_type) or mimetypes.guess_extension(self.content_type) or ".bin"


def wanted_type(operation: Operation, file: str, *, as_json: bool) -> str:
    """The content type to ask for, so that the answer fits a file's name (or JSON); "" for the method's own."""
    wanted = media.JSON if as_json else _SUFFIXES.get(PurePath(file).suffix.lower(), "")
    if not wanted and operation.result.kind == "array" and not operation.result.many:
        wanted = media.NPY
    if not wanted and operation.result.kind == "frame" and not file:
        wanted = media.JSON  # what a person can read
    return wanted if wanted in operation.offers else ""


def json_of(answer: RawAnswer) -> bytes:
    """The answer as JSON, whatever it came as: files are base64 text."""
    kind = media.media_type(answer.content_type)
    if media.is_json(kind):
        return answer.body
    if kind != media.FORM:
        return msgspec.json.encode(_plain(kind, answer.body))
    found: dict[str, list[Any]] = {}
    for part in parse_form(answer.content_type, answer.body):
        found.setdefault(unquoted(part.name), []).append(_plain(media.media_type(part.content_type), part.body))
    return msgspec.json.encode({name: each[0] if len(each) == 1 else each for name, each in found.items()})


def _plain(content_type: str, body: bytes) -> msgspec.Raw | str:
    if media.is_json(content_type):
        return msgspec.Raw(body)
    return body.decode("utf-8", "replace") if content_type == TEXT else base64.b64encode(body).decode()


def pieces_of(answer: RawAnswer) -> list[Piece]:
    """The answer in files: one, or one for each item of a list of images, arrays or bytes."""
    kind, content_type = answer.operation.result.kind, media.media_type(answer.content_type)
    if content_type == media.FORM:
        return [_part(part) for part in parse_form(answer.content_type, answer.body)]
    if not media.is_json(content_type):
        return [_piece(content_type, answer.body)]
    value = msgspec.json.decode(answer.body)
    if kind not in _MAKERS or value is None:
        if isinstance(value, str):
            return [Piece(content_type=TEXT, content=value.encode(), shown=value, readable=True)]
        written = msgspec.json.format(answer.body, indent=2)
        return [Piece(content_type=media.JSON, content=answer.body, shown=written.decode(), readable=True)]
    found = answer.value()
    make = _MAKERS[kind]
    return [make(item) for item in found] if answer.operation.result.many else [make(found)]


def _part(part: Part) -> Piece:
    """A part of an answer of several, under its name."""
    name, kind = unquoted(part.name), media.media_type(part.content_type)
    if media.is_json(kind):
        piece = Piece(content_type=media.JSON, content=part.body, shown=part.body.decode(), readable=True)
    else:
        piece = _piece(kind, part.body)
    return replace(piece, name=name, shown=f"{name}: {piece.shown}")


def _piece(content_type: str, body: bytes) -> Piece:
    if content_type == media.NPY:
        from trilith.service.codecs import arrays

        return _array_piece(arrays.from_npy(body), body)
    if content_type.startswith("text/"):
        text = body.decode("utf-8", "replace")
        return Piece(content_type=content_type, content=body, shown=text, readable=True)
    size = _size_of_image(body) if content_type.startswith("image/") else ""
    shown = f"{content_type}, {size}{len(body):,} bytes"
    return Piece(content_type=content_type, content=body, shown=shown, readable=False)


def _array_piece(array: Array, npy: bytes | None = None) -> Piece:
    from trilith.service.codecs import arrays

    content = arrays.to_npy(array) if npy is None else npy
    if array.size <= _SHOWN_NUMBERS:
        shown = arrays.to_json(array).decode()
        return Piece(content_type=media.NPY, content=bytes(content), shown=shown, readable=True)
    about = ""
    if array.dtype.kind in "iuf":
        low, high, mean = float(array.min()), float(array.max()), float(array.mean(dtype="float64"))
        about = f", from {low:.6g} to {high:.6g}, mean {mean:.6g}" if math.isfinite(mean) else ", not all finite"
    shown = f"array of {array.dtype}, shape {list(array.shape)}{about}"
    return Piece(content_type=media.NPY, content=bytes(content), shown=shown, readable=False)


def _image_piece(image: Any) -> Piece:
    from trilith.service.codecs import images

    return _piece(*images.encode_image(image))


def _bytes_piece(content: bytes) -> Piece:
    return _piece(media.BINARY, content)


_MAKERS: Final[dict[str, Callable[[Any], Piece]]] = {
    "array": _array_piece,
    "image": _image_piece,
    "bytes": _bytes_piece,
    "file": _bytes_piece,
}


def _size_of_image(body: bytes) -> str:
    """`640 x 480 pixels, `; nothing where Pillow is not installed, or does not know the format."""
    try:
        from trilith.service.codecs import images
    except ImportError:
        return ""
    return images.shown_size(io.BytesIO(body))
