"""Images: files, raw bodies, forms, JSON; and what is none."""

import base64
import io
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

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


@settings(max_examples=25)
@given(
    st.sampled_from(["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "I", "YCbCr", "PA"]),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_raw_pixels_round_trip(mode, width, height):
    image = Image.new(mode, (width, height))
    found = images.from_raw(*[images.to_raw(image)[i] for i in (2, 0, 1)])
    assert found.size == image.size
    if mode != "PA":
        assert found.mode == mode
        assert found.tobytes() == image.tobytes()


@pytest.mark.parametrize("content_type", ["image/png", "image/jpeg", "image/webp"])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "F", "PA"])
def test_every_mode_can_be_written(content_type, mode):
    image = Image.new(mode, (5, 4))
    assert images.decode_image(images.encode_image(image, content_type)).size == (5, 4)


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
        ("text/html", "image/png"),
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
