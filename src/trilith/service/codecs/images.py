"""PIL images as files (PNG, JPEG ...) and as raw pixels.

Rule 1: this is the one file that imports PIL.
Rule 2: the number of pixels is bounded before a pixel is decoded, and only formats that are decoded in process are read
(Pillow hands PostScript to another program).
"""

from __future__ import annotations

import io
from typing import Any, Final

from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from trilith.errors import InvalidInput

MAX_PIXELS: Final = 89_478_485  # Pillow's own bound for a decompression bomb: a quarter of a GiB of RGB
WRITTEN: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
"""The content types that an image is written as; the first is the default."""

_READERS: Final = (PngImagePlugin, JpegImagePlugin, WebPImagePlugin, GifImagePlugin, BmpImagePlugin, TiffImagePlugin)
_READ: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # what the modules above register when they are imported
_BROKEN: Final = (OSError, ValueError, SyntaxError, TypeError, EOFError)  # what Pillow's readers raise, one or another
_RAW_MODES: Final = frozenset({"1", "L", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "LA", "I", "F", "I;16"})
_JPEG_MODES: Final = frozenset({"L", "RGB", "CMYK"})
_PNG_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})


def is_image(value: object) -> bool:
    """Whether it is a PIL image."""
    return isinstance(value, Image.Image)


def decode_image(body: bytes | memoryview) -> Image.Image:
    """The image of a file; of an animation its first frame. EXIF orientation is left to the service.

    Raises:
        InvalidInput: it is no image of a known format, is cut short or broken, or has too many pixels.
    """
    try:
        image = Image.open(io.BytesIO(body), formats=_READ)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"the image has too many pixels; at most {MAX_PIXELS:,} are read") from error
    except UnidentifiedImageError as error:
        raise InvalidInput(f"expected an image ({', '.join(_READ)}), got {len(body)} bytes that are none") from error
    except _BROKEN as error:
        raise InvalidInput(f"the image is broken: {error}") from error
    _check_size(image.width, image.height)
    try:
        image.load()
    except _BROKEN as error:
        raise InvalidInput(f"the image is broken: {error}") from error
    return image


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise InvalidInput(f"an image has at least one pixel, got {width} x {height}")
    if width * height > MAX_PIXELS:
        raise InvalidInput(f"the image has {width} x {height} pixels; at most {MAX_PIXELS:,} are read")


def encode_image(image: Image.Image, content_type: str = "image/png") -> bytes:
    """The image as a file.

    Args:
        image: of any mode; it is converted when the format cannot hold its mode.
        content_type: a key of `WRITTEN`.
    """
    stream = io.BytesIO()
    written = WRITTEN[content_type]
    if written == "JPEG" and image.mode not in _JPEG_MODES:
        image = image.convert("RGB")
    elif written == "PNG" and image.mode not in _PNG_MODES:
        image = image.convert("RGBA" if "A" in image.mode or "a" in image.mode else "RGB")
    # Level 1 of zlib: a third larger than the default and several times faster; the answer is waited for.
    image.save(stream, written, **({"compress_level": 1} if written == "PNG" else {}))
    return stream.getvalue()


def to_raw(image: Image.Image) -> tuple[str, tuple[int, int], bytes]:
    """Mode, (width, height) and pixels. An image of a rarer mode (a palette ...) is a PNG file, with mode ""."""
    if image.mode in _RAW_MODES:
        return image.mode, image.size, image.tobytes()
    return "", image.size, encode_image(image)


def from_raw(raw: bytes | memoryview, mode: str, size: Any) -> Image.Image:
    """The inverse of `to_raw`.

    Raises:
        InvalidInput: mode and size do not make up the bytes that are there.
    """
    if mode == "":
        return decode_image(raw)
    if mode not in _RAW_MODES:
        raise InvalidInput(f"raw pixels have one of the modes {', '.join(sorted(_RAW_MODES))}; got {mode!r}")
    try:
        width, height = (int(side) for side in size)
        _check_size(width, height)
        return Image.frombytes(mode, (width, height), bytes(raw))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{len(raw)} bytes are no image of mode {mode} and size {size}: {error}") from error
