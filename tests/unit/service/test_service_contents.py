"""Files with declared content types: what their sender says, what they hold, and both together."""

import base64
import io
import json
import pathlib
import wave
from typing import Annotated

import pytest
from PIL import Image
from pydantic import BaseModel, ConfigDict

import trilith
from trilith.errors import InvalidConfig, InvalidInput, NotAcceptable, UnsupportedMediaType
from trilith.service import describe
from trilith.service.codecs.contents import check_content, recognised
from trilith.service.codecs.files import RequestFolder, safe_name

AUDIO = trilith.ContentType("audio/*")


def wav() -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\0\0" * 8)
    return stream.getvalue()


def png() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "PNG")
    return stream.getvalue()


WAV, PNG = wav(), png()


@trilith.service
class Files:
    @trilith.api
    def length(self, sound: Annotated[pathlib.Path, AUDIO]) -> str:
        return f"{sound.suffix} {sound.stat().st_size}"

    @trilith.api
    def lengths(self, sounds: list[Annotated[pathlib.Path, AUDIO]]) -> list[int]:
        return [sound.stat().st_size for sound in sounds]

    @trilith.api
    def maybe(self, file: pathlib.Path | None = None, note: str | None = None) -> str:
        return f"{None if file is None else file.name} {note}"

    @trilith.api
    def either(self, source: str | pathlib.Path | None = None, picture: Image.Image | list[int] | None = None) -> str:
        what = source.name if isinstance(source, pathlib.Path) else source
        return f"{type(source).__name__} {what} {getattr(picture, 'size', picture)}"

    @trilith.api
    async def raw(self, data: Annotated[bytes, trilith.ContentType("application/pdf", "text/*")]) -> int:
        return len(data)

    @trilith.api
    def picture(self, image: Annotated[Image.Image, trilith.ContentType("image/png")]) -> list[int]:
        return list(image.size)

    @trilith.api
    async def speak(self, text: str) -> Annotated[bytes, trilith.ContentType("audio/wav")]:
        return WAV

    @trilith.api
    async def paint(self, size: int) -> Annotated[Image.Image, trilith.ContentType("image/jpeg")]:
        return Image.new("RGB", (size, size))


def form(*parts: tuple[str, str, str, bytes]) -> bytes:
    body = b""
    for name, filename, content_type, content in parts:
        body += f'--B\r\ncontent-disposition: form-data; name="{name}"; filename="{filename}"\r\n'.encode()
        body += (f"content-type: {content_type}\r\n" if content_type else "").encode() + b"\r\n" + content + b"\r\n"
    return body + b"--B--\r\n"


FORM = "multipart/form-data; boundary=B"


@pytest.mark.parametrize(
    ("said", "filename", "body", "expected"),
    [
        ("audio/wav", None, WAV, "audio/wav"),
        ("audio/x-wav", None, WAV, "audio/x-wav"),
        ("Audio/WAV; codec=1", None, WAV, "audio/wav"),
        ("", None, WAV, "audio/wav"),
        ("application/octet-stream", "a.bin", WAV, "audio/wav"),
        ("audio/x-exotic", None, b"who knows", "audio/x-exotic"),
        ("", "a.mid", b"MThd", "audio/"),
        ("image/png", None, PNG, "expected a file of the type audio/.*, got image/png"),
        ("audio/wav", "a.wav", PNG, "says that it is audio/wav and holds image/png"),
        ("audio/wav", "a.wav", b"no sound", "the file says that it is audio/wav, and holds something else"),
        ("audio/flac", "a.wav", WAV, "the file says that it is audio/flac, and holds audio/wav"),
        ("", "a.wav", b"no sound", "neither its content type nor its content says so"),
        ("", "a.wav", PNG, "this one holds image/png"),
        ("", None, b"", "neither"),
    ],
)
def test_what_is_said_and_what_it_is(said, filename, body, expected):
    if expected.startswith("audio/"):
        assert check_content(AUDIO, body, said=said, filename=filename).startswith(expected)
    else:
        with pytest.raises(UnsupportedMediaType, match=expected):
            check_content(AUDIO, body, said=said, filename=filename)


def test_formats_that_are_made_of_others():
    word = trilith.ContentType("application/vnd.openxmlformats-officedocument.wordprocessingml.document")
    zipped = b"PK\x03\x04rest"
    assert check_content(word, zipped, said=word.exact) == word.exact
    with pytest.raises(UnsupportedMediaType):
        check_content(trilith.ContentType("image/*"), zipped, said="image/png")
    assert check_content(trilith.ContentType("text/*"), b"a,b", filename="a.csv") == "text/csv"
    assert check_content(trilith.ContentType("*/*"), b"?") == "application/octet-stream"
    assert recognised(b"\xff\xfb\x90\x00")[0] == "audio/mpeg"
    assert recognised(b"RIFF\0\0\0\0WEBPVP8 ")[0] == "image/webp"
    assert recognised(b"XXXX\0\0\0\0WEBPVP8 ") == ()


def test_uploads(serve):
    async def scenario(host):
        sent = form(("sound", "a.wav", "audio/wav", WAV))
        assert json.loads(await host.body("length", sent, FORM)) == f".wav {len(WAV)}"
        assert json.loads(await host.body("length", WAV, "audio/wav")) == f".wav {len(WAV)}"
        assert json.loads(await host.body("length", WAV, "application/octet-stream")) == f".wav {len(WAV)}"
        two = form(("sounds", "a.wav", "", WAV), ("sounds", "b.wav", "", WAV))
        assert json.loads(await host.body("lengths", two, FORM)) == [len(WAV)] * 2
        for body, content_type in (
            (form(("sound", "a.wav", "audio/wav", PNG)), FORM),
            (PNG, "image/png"),
            (PNG, "audio/wav"),
        ):
            with pytest.raises(UnsupportedMediaType, match=r"^Files.length: sound: "):
                await host.body("length", body, content_type)
        with pytest.raises(UnsupportedMediaType, match=r"sounds: .*holds image/png"):
            await host.body("lengths", form(("sounds", "a.wav", "", WAV), ("sounds", "b.wav", "", PNG)), FORM)

    serve(Files, scenario)


def test_bytes_and_images(serve):
    async def scenario(host):
        assert json.loads(await host.body("raw", b"%PDF-1.7", "application/pdf")) == 8
        assert json.loads(await host.body("raw", b"a,b", "text/csv")) == 3
        with pytest.raises(UnsupportedMediaType, match=r"expected a file of the type application/pdf, text/.*"):
            await host.body("raw", PNG, "image/png")
        inside = json.dumps({"data": base64.b64encode(PNG).decode()}).encode()
        with pytest.raises(InvalidInput, match="holds image/png"):
            await host.body("raw", inside)
        assert json.loads(await host.body("picture", PNG, "image/png")) == [2, 2]
        stream = io.BytesIO()
        Image.new("RGB", (2, 2)).save(stream, "JPEG")
        for said in ("image/jpeg", "image/png", ""):
            with pytest.raises(UnsupportedMediaType):
                await host.body("picture", stream.getvalue(), said)

    serve(Files, scenario)


def test_a_result_of_one_type_is_answered_as_that(serve):
    async def scenario(host):
        answer = await host.call("speak", b'{"text": "a"}')
        assert (answer.meta.content_type, answer.body) == ("audio/wav", WAV)
        answer = await host.call("paint", b'{"size": 2}')
        assert answer.meta.content_type == "image/jpeg"
        assert Image.open(io.BytesIO(answer.body)).format == "JPEG"
        with pytest.raises(NotAcceptable, match="answers with audio/wav, application/json; Accept has image/png"):
            await host.call("speak", b'{"text": "a"}', accept="image/png")

    serve(Files, scenario)


def test_a_file_or_something_else(serve):
    async def scenario(host):
        assert (
            json.loads(await host.body("either", b'{"source": "http://x/a.png", "picture": [1]}'))
            == "str http://x/a.png [1]"
        )
        assert json.loads(await host.body("either", b"{}")) == "NoneType None None"
        sent = form(("source", "a.txt", "", b"x"), ("picture", "a.png", "image/png", PNG))
        assert json.loads(await host.body("either", sent, FORM)) == "PosixPath a.txt (2, 2)"
        text = b'--B\r\ncontent-disposition: form-data; name="source"\r\n\r\nwords\r\n--B--\r\n'
        assert json.loads(await host.body("either", text, FORM)) == "str words None"

    serve(Files, scenario)


def test_what_may_be_left_out(serve):
    async def scenario(host):
        assert json.loads(await host.body("maybe", b"{}")) == "None None"
        assert json.loads(await host.body("maybe", b'{"file": null, "note": "x"}')) == "None x"
        sent = form(("file", "../../etc/pass\0wd", "", b"x"), ("note", "", "", b"n"))
        assert json.loads(await host.body("maybe", sent, FORM)) == "passwd n"

    serve(Files, scenario)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("..", "upload.png"),
        ("a\0b.txt", "ab.txt"),
        ("/", "upload.png"),
        (".bashrc", "bashrc"),
        ("x" * 300 + ".jpeg", "x" * 79 + ".jpeg"),
        ("\n\r;rm -rf.sh", "_rm -rf.sh"),
        ("CON:stream", "CON_stream"),
        ("é" * 200, "_"),
    ],
)
def test_names_of_uploads_are_safe(name, expected, tmp_path):
    assert safe_name(name, "image/png") == expected
    folder = RequestFolder(tmp_path)
    saved = folder.save(b"x", name, "image/png")
    assert saved.resolve().is_relative_to(tmp_path)
    assert saved.read_bytes() == b"x"
    folder.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("patterns", [(), ("audio",), ("audio/*/x",), (3,), ("*",)])
def test_a_content_type_is_one(patterns):
    with pytest.raises(InvalidConfig, match="ContentType takes media types"):
        trilith.ContentType(*patterns)


class Scanned(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    scan: Image.Image


@pytest.mark.parametrize(
    ("annotation", "returned", "message"),
    [
        (Scanned, int, r'write `Annotated\[Image.Image, trilith.ContentType\("image/\*"\)\]`'),
        (Annotated[str, trilith.Shape(2)], int, "trilith.Shape says nothing of str"),
        (int, Annotated[Image.Image, trilith.ContentType("image/gif")], "none of them is image/gif"),
        (
            Annotated[pathlib.Path, trilith.DType("int8")],
            int,
            "DType says nothing of this type; it takes .*ContentType",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_when_it_is_declared(annotation, returned, message):
    def look(x):
        return x

    look.__annotations__ = {"x": annotation, "return": returned}
    with pytest.raises(InvalidConfig, match=message):
        describe(trilith.service(look))
