"""PIL images as files (PNG, JPEG ...) and as raw pixels.

Rule 1: this is the one file that imports PIL.
Rule 2: the number of pixels is bounded before a pixel is decoded, and only formats that are decoded in process are read
(Pillow hands PostScript to another program).
Rule 3: pixels keep their values and their mode: what PNG cannot hold is a TIFF, what neither holds is refused. JPEG and
    WebP lose something by their nature, and are written only for who asks for them.
Rule 4: what a file says about its pixels (orientation, resolution, colour profile) goes with them.
"""

from __future__ import annotations

import functools
import io
import struct
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
    _imaging,
)

from trilith.errors import InvalidInput
from trilith.service.codecs.libtiff import quiet_libtiff
from trilith.service.codecs.unfolded import spend

MAX_PIXELS: Final = 89_478_485  # Pillow's own bound for a decompression bomb: a quarter of a GiB of RGB
WRITTEN: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/tiff": "TIFF"}
"""The content types that an image is written as; the first is the default."""

_READERS: Final = (PngImagePlugin, JpegImagePlugin, WebPImagePlugin, GifImagePlugin, BmpImagePlugin, TiffImagePlugin)
_READ: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")  # what the modules above register when they are imported
_KEPT_BLOCKS: Final = 4  # of 16 MiB: a picture of 16 megapixels
_BROKEN: Final = (OSError, ValueError, SyntaxError, TypeError, EOFError)  # what Pillow's readers raise, one or another
_RAW_MODES: Final = frozenset({"1", "L", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "LA", "I", "F", "I;16"})
_ONE_BYTE_MODES: Final = frozenset({"1", "L", "P"})  # a pixel; of all others Pillow holds four
_JPEG_MODES: Final = frozenset({"L", "RGB", "CMYK"})
_PNG_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})
_TIFF_MODES: Final = _PNG_MODES | {"PA", "CMYK", "YCbCr", "LAB", "I", "F", "I;16B", "I;16L"}
_DEEP_MODES: Final = frozenset({"I", "F", "I;16", "I;16B", "I;16L"})  # more than 8 bits: JPEG and WebP would clip them
_ORIENTATION: Final = 274  # the EXIF tag
_STRIP_OFFSETS: Final = 273  # a tag that says where in a TIFF file the pixels are
_LONGEST_EXIF: Final = 65_000  # bytes; a JPEG file holds 65,533


def is_image(value: object) -> bool:
    """Whether it is a PIL image."""
    return isinstance(value, Image.Image)


def decode_image(body: bytes | memoryview) -> Image.Image:
    """The image of a file; of an animation its first frame. EXIF orientation is left to the service.

    Raises:
        InvalidInput: it is no image of a known format, is cut short or broken, or has too many pixels.
        PayloadTooLarge: the images of the call have too many together.
    """
    _keep_memory()
    try:
        image = Image.open(io.BytesIO(body), formats=_READ)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"the image has too many pixels; at most {MAX_PIXELS:,} are read") from error
    except UnidentifiedImageError as error:
        raise InvalidInput(f"expected an image ({', '.join(_READ)}), got {len(body)} bytes that are none") from error
    except _BROKEN as error:
        raise InvalidInput(f"the image is broken: {error}") from error
    _check_size(image.width, image.height)
    spend(image.width * image.height * (1 if image.mode in _ONE_BYTE_MODES else 4))
    if image.format == "TIFF":
        quiet_libtiff(_imaging.__file__)
    try:
        image.load()
    except _BROKEN as error:
        raise InvalidInput(f"the image is broken: {error}") from error
    return image


def shown_size(file: io.BytesIO) -> str:
    """`640 x 480 pixels, ` of an image's file, for people; "" when it is none."""
    try:
        width, height = Image.open(file, formats=_READ).size
    except (*_BROKEN, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return ""
    return f"{width} x {height} pixels, "


@functools.cache
def _keep_memory() -> None:
    """Lets Pillow keep the memory of pictures that are gone for those to come.

    Else each one's pages come from the system anew, which costs a third of decoding and encoding a large JPEG.
    """
    if not _imaging.get_blocks_max():  # PILLOW_BLOCKS_MAX is not set
        _imaging.set_blocks_max(_KEPT_BLOCKS)


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise InvalidInput(f"an image has at least one pixel, got {width} x {height}")
    if width * height > MAX_PIXELS:
        raise InvalidInput(f"the image has {width} x {height} pixels; at most {MAX_PIXELS:,} are read")


def encode_image(image: Image.Image, content_type: str = "image/png") -> tuple[str, bytes]:
    """The image as a file, with its content type.

    Args:
        image: of any mode but those that stand for a step of a computation (`HSV`, `RGBa`, `La`).
        content_type: a key of `WRITTEN`. Where that format would clip the values, another one is taken.

    Raises:
        TypeError: no format keeps its values.
    """
    chosen = _holding(image.mode, content_type)
    written = WRITTEN[chosen]
    if (written in ("JPEG", "WEBP") and image.mode not in _JPEG_MODES) or image.mode == "RGBX":
        # WebP has transparency, JPEG has none.
        image = _copied_about(image, image.convert("RGBA" if written == "WEBP" and _has_alpha(image) else "RGB"))
    stream = io.BytesIO()
    # Level 1 of zlib: a third larger than the default and several times faster; the answer is waited for.
    level = {"compress_level": 1} if written == "PNG" else {}
    image.save(stream, written, **level, **about(image, orientation_alone=written == "TIFF"))
    return chosen, stream.getvalue()


def _holding(mode: str, content_type: str) -> str:
    if content_type in ("image/jpeg", "image/webp") and mode not in _DEEP_MODES:
        return content_type
    if content_type != "image/tiff" and (mode in _PNG_MODES or mode == "RGBX"):
        return "image/png"
    if mode in _TIFF_MODES or mode == "RGBX":
        return "image/tiff"
    raise TypeError(f"no image file keeps the mode {mode!r}; convert it first, as by image.convert('RGB')")


def _has_alpha(image: Image.Image) -> bool:
    return "A" in image.mode or "a" in image.mode or "transparency" in image.info


def about(image: Image.Image, *, orientation_alone: bool = False) -> dict[str, Any]:
    """What is known of the pixels beside themselves, as `Image.save` takes it: `exif`, `icc_profile`, `dpi`.

    Args:
        orientation_alone: of the EXIF data only the orientation.
    """
    kept: dict[str, Any] = {}
    exif = _exif(image, orientation_alone=orientation_alone)
    if exif:
        kept["exif"] = exif
    profile, resolution = image.info.get("icc_profile"), image.info.get("dpi")
    if isinstance(profile, bytes) and profile:
        kept["icc_profile"] = profile
    if isinstance(resolution, tuple) and len(resolution) == 2 and all(0 < float(one) < 1e6 for one in resolution):
        kept["dpi"] = (float(resolution[0]), float(resolution[1]))
    return kept


def _exif(image: Image.Image, *, orientation_alone: bool) -> bytes:
    """Nothing when there is none, or when it is so broken that Pillow does not read it."""
    try:
        found = image.getexif()
        if not orientation_alone and found and _STRIP_OFFSETS not in found:
            raw = found.tobytes()
            if len(raw) <= _LONGEST_EXIF:
                return raw
        orientation = found.get(_ORIENTATION, 1)
        if orientation == 1:
            return b""
        alone = Image.Exif()
        alone[_ORIENTATION] = orientation
        return alone.tobytes()
    except (*_BROKEN, struct.error, LookupError, AttributeError, ArithmeticError):
        return b""


def _copied_about(source: Image.Image, image: Image.Image) -> Image.Image:
    image.info.update(about(source))
    return image


def to_raw(image: Image.Image) -> tuple[str, tuple[int, int], bytes, dict[str, Any]]:
    """Mode, (width, height), pixels, and what is known about them.

    An image of a rarer mode (a palette ...) is a file, with mode "".

    Raises:
        TypeError: see `encode_image`.
    """
    if image.mode in _RAW_MODES:
        return image.mode, image.size, image.tobytes(), about(image)
    return "", image.size, encode_image(image)[1], {}


def from_raw(raw: bytes | memoryview, mode: str, size: Any, known: Any) -> Image.Image:
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
        image = Image.frombytes(mode, (width, height), bytes(raw))
        image.info.update({key: tuple(value) if key == "dpi" else value for key, value in known.items()})
        return image
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{len(raw)} bytes are no image of mode {mode} and size {size}: {error}") from error
