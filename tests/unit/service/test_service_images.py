"""Images: files, raw bodies, forms, JSON; and what is none."""

import base64
import contextlib
import io
import struct
import threading
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

import trilith
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.service.codecs import images


def png(image: Image.Image | None = None, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    (image or Image.new("RGB", (4, 3), (255, 0, 0))).save(stream, kind)
    return stream.getvalue()


@trilith.service
class Images:
    @trilith.api
    def size(self, image: Image.Image, scale: int = 1) -> list[int]:
        return [image.width * scale, image.height * scale]

    @trilith.api
    async def turn(self, image: Image.Image, /) -> Image.Image:
        return image.rotate(90, expand=True)

    @trilith.api
    def maybe(self, image: Image.Image | None = None) -> Image.Image | None:
        return image

    @trilith.api
    def sizes(self, pages: list[Image.Image]) -> list[int]:
        return [page.width for page in pages]

    @trilith.api
    def wrong(self, image: Image.Image) -> Image.Image:
        return "no image"  # type: ignore[return-value]


MODES = ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I", "F", "I;16", "I;16B"]


@st.composite
def pictures(draw, modes=tuple(MODES)):
    """An image with any pixels."""
    mode, width, height = draw(st.sampled_from(modes)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    image = Image.new(mode, (width, height))
    if mode == "P":
        image.putpalette([value % 256 for value in range(768)])
    if mode not in ("1", "P", "PA"):
        size = len(image.tobytes())
        image.frombytes(draw(st.binary(min_size=size, max_size=size)))
    return image


@given(pictures())
def test_pixels_go_from_service_to_service_as_they_are(image):
    mode, size, raw, known = images.to_raw(image)
    found = images.from_raw(raw, mode, size, known)
    assert (found.mode, found.size, found.tobytes()) == (image.mode, image.size, image.tobytes())


@given(pictures())
def test_pixels_go_through_a_file_as_they_are(image):
    content_type, file = images.encode_image(image)
    found = images.decode_image(file)
    assert content_type in ("image/png", "image/tiff")
    assert (found.mode, found.size, found.tobytes()) == (image.mode, image.size, image.tobytes())


@given(pictures(), st.sampled_from(sorted(images.WRITTEN)))
def test_values_are_never_clipped_whatever_format_is_asked_for(image, content_type):
    chosen, file = images.encode_image(image, content_type)
    found = images.decode_image(file)
    assert found.size == image.size
    if image.mode in ("I", "F", "I;16", "I;16B"):
        assert np.array_equal(np.asarray(found), np.asarray(image), equal_nan=True)
    elif content_type in ("image/jpeg", "image/webp"):
        assert chosen == content_type


@pytest.mark.parametrize("mode", ["HSV", "La", "RGBa"])
def test_a_mode_that_no_file_keeps_is_refused(mode):
    with pytest.raises(TypeError, match=r"no image file keeps the mode .*convert it first"):
        images.encode_image(Image.new(mode, (1, 1)))


def photograph(kind="JPEG"):
    """A picture that lies on its side, as a camera writes it."""
    exif = Image.Exif()
    exif[274] = 6
    exif[271] = "a camera"
    stream = io.BytesIO()
    Image.new("RGB", (8, 4), "red").save(stream, kind, exif=exif, dpi=(300, 300), icc_profile=b"a profile")
    return Image.open(io.BytesIO(stream.getvalue()))


@pytest.mark.parametrize("content_type", sorted(images.WRITTEN))
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "F"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_the_orientation_goes_with_the_pixels(kind, mode, content_type):
    source = photograph(kind)
    image = source.convert(mode)
    chosen, file = images.encode_image(image, content_type)
    found = images.decode_image(file)
    assert ImageOps.exif_transpose(found).size == (4, 8)  # Pillow turns a TIFF itself when it reads it
    assert found.info["icc_profile"] == b"a profile"
    if chosen in ("image/png", "image/jpeg"):
        assert [round(float(one)) for one in found.info["dpi"]] == [300, 300]
    mode, size, raw, known = images.to_raw(image)
    beside = images.from_raw(raw, mode, size, known)
    assert ImageOps.exif_transpose(beside).size == (4, 8)
    assert [float(one) for one in beside.info["dpi"]] == pytest.approx([300, 300], rel=1e-3)


def test_a_picture_that_was_turned_is_not_turned_again():
    turned = ImageOps.exif_transpose(photograph())
    assert turned.size == (4, 8)
    found = images.decode_image(images.encode_image(turned)[1])
    assert found.getexif().get(274, 1) == 1
    assert ImageOps.exif_transpose(found).size == (4, 8)


@given(st.binary(max_size=200))
def test_exif_that_is_broken_is_left_behind(raw):
    image = Image.new("L", (2, 2))
    image.info["exif"] = raw
    assert images.decode_image(images.encode_image(image)[1]).size == (2, 2)


@given(st.sampled_from(["L", ""]), st.recursive(st.none() | st.integers() | st.text(), st.lists), st.binary(max_size=4))
def test_what_is_known_may_be_anything(mode, known, raw):
    with contextlib.suppress(InvalidInput):
        images.from_raw(raw, mode, (2, 2), known)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_the_usual_formats_are_read(kind):
    assert images.decode_image(png(kind=kind)).size == (4, 3)


@settings(max_examples=25)
@given(st.binary(max_size=100))
def test_bytes_that_are_no_image_are_refused(body):
    with pytest.raises(InvalidInput):
        images.decode_image(body)


NOISE = png(Image.effect_noise((32, 32), 100))


@settings(max_examples=25)
@given(st.integers(0, len(NOISE) // 2))
def test_a_cut_image_is_refused(end):
    with pytest.raises(InvalidInput):
        images.decode_image(NOISE[:end])


def test_postscript_is_not_read():
    with pytest.raises(InvalidInput, match="expected an image"):
        images.decode_image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")


def bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_500, 30_000, 65_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(side):
    with pytest.raises(InvalidInput, match="pixels"):
        images.decode_image(bomb(side, side))


@pytest.mark.parametrize("content_type", ["image/png", "image/whatever", "application/octet-stream", ""])
def test_a_raw_body_is_the_image(call_once, content_type):
    assert call_once(Images, "size", png(), content_type).body == b"[4,3]"


def test_curl_data_binary_works_too(call_once):
    assert call_once(Images, "size", png(), "application/x-www-form-urlencoded").body == b"[4,3]"


def test_base64_in_json(call_once):
    encoded = base64.b64encode(png()).decode()
    body = f'{{"image": "{encoded}", "scale": 2}}'.encode()
    assert call_once(Images, "size", body).body == b"[8,6]"
    body = f'{{"image": "data:image/png;base64,{encoded}"}}'.encode()
    assert call_once(Images, "size", body).body == b"[4,3]"
    with pytest.raises(InvalidInput, match=r"base64 text.*\$\.image"):
        call_once(Images, "size", b'{"image": "!!"}')


def test_an_image_is_answered_as_png_by_default(call_once):
    answer = call_once(Images, "turn", png(), "image/png")
    assert answer.meta.content_type == "image/png"
    assert images.decode_image(answer.body).size == (3, 4)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("image/jpeg", "image/jpeg"),
        ("image/webp;q=0.9, image/png;q=0.5", "image/webp"),
        ("image/*", "image/png"),
        ("text/html, */*;q=0.1", "image/png"),
        ("application/json", "application/json"),
    ],
)
def test_the_accept_header_chooses_the_format(call_once, accept, content_type):
    assert call_once(Images, "turn", png(), "image/png", accept=accept).meta.content_type == content_type


def test_no_image_is_null(call_once):
    assert call_once(Images, "maybe", b"", "").body == b"null"
    assert call_once(Images, "maybe", b"{}").body == b"null"
    assert call_once(Images, "maybe", b'{"image": null}').body == b"null"


def test_what_is_no_image_is_the_callers_fault(call_once):
    with pytest.raises(InvalidInput, match=r"^Images.size: image: expected an image"):
        call_once(Images, "size", b"no image", "image/png")


def test_text_is_not_an_image(call_once):
    with pytest.raises(UnsupportedMediaType, match="reads image/\\*, application/json, multipart/form-data"):
        call_once(Images, "size", b"x", "text/plain")


def test_a_method_that_returns_no_image(call_once):
    with pytest.raises(trilith.errors.ServiceError, match="returned str and declares Image"):
        call_once(Images, "wrong", png(), "image/png", debug=True)


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "group4", "jpeg", "packbits"])
def test_a_broken_tiff_writes_nothing_to_stderr(compression, capfd):
    image = Image.effect_noise((200, 200), 50).convert("1" if compression == "group4" else "RGB")
    stream = io.BytesIO()
    image.save(stream, "TIFF", compression=compression)
    octets = bytearray(stream.getvalue())
    octets[1000:1400] = bytes(octet ^ 0x55 for octet in octets[1000:1400])
    with contextlib.suppress(InvalidInput):
        images.decode_image(bytes(octets))
    assert capfd.readouterr().err == ""


def test_a_small_file_is_unfolded_beside_the_loop(call_once, monkeypatch):
    """Few bytes may become many pixels, and the loop has other calls to see to."""
    decode, threads = images.decode_image, []

    def watched(body):
        threads.append(threading.current_thread())
        return decode(body)

    monkeypatch.setattr(images, "decode_image", watched)
    assert call_once(Images, "turn", png(), "image/png").meta.content_type == "image/png"
    assert threads
    assert threading.main_thread() not in threads
