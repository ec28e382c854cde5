"""An answer as a person looks at it, and as files: JSON and text in full, of the rest a line about it."""

from __future__ import annotations

import base64
import io
import math
import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.service.client.operations import Operation
from trilith.service.codecs import media

if TYPE_CHECKING:
    from trilith.core.tensor import Array
    from trilith.service.client.raw import RawAnswer

TEXT: Final = "text/plain"
_SHOWN_NUMBERS: Final = 64
_SUFFIXES: Final = {
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": media.JSON,
    ".npy": media.NPY,
    ".png": "image/png",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
}
_ENDINGS: Final = {media.JSON: ".json", media.NPY: ".npy", TEXT: ".txt", media.BINARY: ".bin"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file's worth of an answer.

    Attributes:
        content_type: of the content.
        content: the file.
        shown: the value itself where it can be read, else a line about it.
        readable: which of the two `shown` is.
    """

    content_type: str
    content: bytes
    shown: str
    readable: bool

    @property
    def ending(self) -> str:
        """What the name of such a file ends with."""
        return _ENDINGS.get(self.content_type) or mimetypes.guess_extension(self.content_type) or ".bin"


def wanted_type(operation: Operation, file: str, *, as_json: bool) -> str:
    """The content type to ask for, so that the answer fits a file's name (or JSON); "" for the method's own."""
    wanted = media.JSON if as_json else _SUFFIXES.get(PurePath(file).suffix.lower(), "")
    if not wanted and operation.result.kind == "array" and not operation.result.many:
        wanted = media.NPY
    return wanted if wanted in operation.offers else ""


def json_of(answer: RawAnswer) -> bytes:
    """The answer as JSON, whatever it came as: files are base64 text."""
    if media.is_json(answer.content_type):
        return answer.body
    return msgspec.json.encode(base64.b64encode(answer.body).decode())


def pieces_of(answer: RawAnswer) -> list[Piece]:
    """The answer in files: one, or one for each item of a list of images, arrays or bytes."""
    kind = answer.operation.result.kind
    if not media.is_json(answer.content_type):
        return [_piece(answer.content_type, answer.body)]
    value = msgspec.json.decode(answer.body)
    if kind == "json" or value is None:
        if isinstance(value, str):
            return [Piece(content_type=TEXT, content=value.encode(), shown=value, readable=True)]
        written = msgspec.json.format(answer.body, indent=2)
        return [Piece(content_type=media.JSON, content=answer.body, shown=written.decode(), readable=True)]
    found = answer.value()
    make = _MAKERS[kind]
    return [make(item) for item in found] if answer.operation.result.many else [make(found)]


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
