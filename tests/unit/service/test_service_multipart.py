"""Forms: files, fields, and everything that a client can get wrong."""

import pathlib
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

import trilith
from trilith.errors import InvalidInput, PayloadTooLarge
from trilith.service.codecs import arrays, images
from trilith.service.codecs.files import safe_name
from trilith.service.codecs.multipart import parse_form

BOUNDARY = "----x"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def form(*parts: tuple[str, bytes | str, str | None, str]) -> bytes:
    body = b""
    for name, value, filename, content_type in parts:
        disposition = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
        head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n"
        head += f"Content-Type: {content_type}\r\n" if content_type else ""
        body += head.encode() + b"\r\n" + (value.encode() if isinstance(value, str) else value) + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


def field(name: str, value: str) -> tuple[str, str, None, str]:
    return name, value, None, ""


seen: list[pathlib.Path] = []


@trilith.service
class Forms:
    @trilith.api
    def upload(self, file: pathlib.Path, note: str = "") -> dict[str, str]:
        seen.append(file)
        return {"name": file.name, "text": file.read_text(), "note": note}

    @trilith.api
    async def uploads(self, files: list[pathlib.Path]) -> list[str]:
        seen.extend(files)
        return [f"{file.name} {file.read_text()}" for file in files]

    @trilith.api
    def fails(self, file: pathlib.Path) -> None:
        seen.append(file)
        raise ValueError("no")

    @trilith.api
    def download(self, file: pathlib.Path) -> pathlib.Path:
        return file

    @trilith.api
    def raw(self, data: bytes) -> bytes:
        return data[::-1]

    @trilith.api
    def mixed(
        self,
        image: Image.Image,
        x: NDArray[np.float32],
        n: int,
        tags: list[str],
        text: str = "",
        on: bool | None = None,
    ) -> dict[str, str | int | list[str] | list[float] | bool | None]:
        return {"width": image.width, "x": x.tolist(), "n": n, "tags": tags, "text": text, "on": on}


@pytest.fixture(autouse=True)
def forget():
    seen.clear()


def test_a_file_is_saved_for_the_call_and_removed_after_it(call_once):
    body = form(("file", "hello", "a b.txt", "text/plain"), field("note", "5"))
    answer = msgspec.json.decode(call_once(Forms, "upload", body, FORM).body)
    assert answer == {"name": "a b.txt", "text": "hello", "note": "5"}
    assert seen
    assert not seen[0].exists()
    assert not seen[0].parent.parent.exists()


def test_a_file_is_removed_when_the_method_raises(call_once):
    with pytest.raises(trilith.errors.ServiceError):
        call_once(Forms, "fails", form(("file", "hello", "a.txt", "")), FORM)
    assert seen
    assert not seen[0].parent.parent.exists()


def test_files_of_one_name_do_not_meet(call_once):
    body = form(("files", "1", "a.txt", ""), ("files", "2", "a.txt", ""))
    assert call_once(Forms, "uploads", body, FORM).body == b'["a.txt 1","a.txt 2"]'
    assert not any(path.exists() for path in seen)


@pytest.mark.parametrize("filename", ["../../etc/passwd", "..\\..\\etc\\passwd", "/etc/passwd", "C:\\passwd"])
def test_path_separators_in_names_lead_nowhere(call_once, filename):
    answer = msgspec.json.decode(call_once(Forms, "upload", form(("file", "x", filename, "")), FORM).body)
    assert answer["name"] == "passwd"


@settings(max_examples=25)
@given(st.text(max_size=300), st.sampled_from(["", "image/png", "nonsense"]))
def test_every_name_becomes_a_safe_one(filename, content_type):
    name = safe_name(filename, content_type)
    assert name
    assert len(name) <= 121
    assert name not in (".", "..")
    assert pathlib.PurePosixPath(name).name == name
    assert not set(name) & set('/\\\0\n:*?"<>|')


def test_the_extension_survives():
    assert safe_name("x" * 300 + ".png").endswith(".png")
    assert safe_name(None, "image/png") == "upload.png"
    assert safe_name("..", "") == "upload"


def test_a_raw_body_is_the_file(call_once):
    answer = msgspec.json.decode(call_once(Forms, "upload", b"hello", "text/plain").body)
    assert answer["name"] == "upload.txt"
    assert answer["text"] == "hello"


def test_a_file_cannot_come_as_json(call_once):
    with pytest.raises(InvalidInput, match="multipart/form-data, or as the raw body"):
        call_once(Forms, "upload", b'{"file": "/etc/passwd"}')


def test_a_path_is_answered_as_its_contents(call_once):
    answer = call_once(Forms, "download", form(("file", "hello", "a.txt", "")), FORM)
    assert answer.meta.content_type == "text/plain"
    assert answer.body == b"hello"


def test_bytes_raw_and_in_a_form_and_in_json(call_once):
    answer = call_once(Forms, "raw", b"abc", "audio/wav")
    assert (answer.meta.content_type, answer.body) == ("application/octet-stream", b"cba")
    assert call_once(Forms, "raw", form(("data", b"ab", "x", "")), FORM).body == b"ba"
    assert call_once(Forms, "raw", b'{"data": "YWI="}').body == b"ba"
    assert call_once(Forms, "raw", b'{"data": "YWI="}', accept="application/json").body == b'"YmE="'


def picture() -> bytes:
    return images.encode_image(Image.new("RGB", (4, 3)))[1]


def test_everything_in_one_form(call_once):
    body = form(
        ("image", picture(), "a.png", "image/png"),
        ("x", arrays.to_npy(np.float32([1, 2])), "x.npy", "application/x-npy"),
        field("n", "3"),
        field("tags", "a"),
        field("tags", "b"),
        field("text", "5"),
        field("on", "true"),
    )
    assert msgspec.json.decode(call_once(Forms, "mixed", body, FORM).body) == {
        "width": 4,
        "x": [1.0, 2.0],
        "n": 3,
        "tags": ["a", "b"],
        "text": "5",
        "on": True,
    }
    body = form(
        ("image", picture(), "a.png", "image/png"),
        field("x", "[1, 2]"),
        field("n", "3"),
        field("tags", '["a"]'),
        ("text", '"5"', None, "application/json"),
        field("on", "null"),
    )
    found = msgspec.json.decode(call_once(Forms, "mixed", body, FORM).body)
    assert (found["x"], found["tags"], found["text"], found["on"]) == ([1.0, 2.0], ["a"], "5", None)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([field("note", "x")], "lacks the required field `file`"),
        ([("file", "x", "a", ""), field("other", "x")], "unknown field `other`; expected file, note"),
        ([("file", "x", "a", ""), ("file", "x", "a", "")], "gives `file` 2 times"),
        ([("file", "x", "a", ""), ("note", b"\xff", None, "")], "UTF-8"),
    ],
)
def test_wrong_fields_are_named(call_once, parts, message):
    with pytest.raises(InvalidInput, match=f"Forms.upload: .*{message}"):
        call_once(Forms, "upload", form(*parts), FORM)


@pytest.mark.parametrize("value", ["x", "1.5", "", "[1]"])
def test_a_field_of_another_type_is_named(call_once, value):
    body = form(("image", picture(), "a", ""), field("x", "[1]"), field("n", value), field("tags", "a"))
    with pytest.raises(InvalidInput, match=r"Forms.mixed: n: "):
        call_once(Forms, "mixed", body, FORM)


@trilith.service
class Fields:
    @trilith.api
    def read(
        self,
        data: bytes = b"",
        count: int = 1,
        share: float = 0.5,
        mode: Literal["soft", "hard"] = "soft",
        on: bool = False,
        name: str = "",
        names: list[str] = [],  # noqa: B006
        numbers: list[int] = [],  # noqa: B006
        maybe: int | None = None,
        big: Annotated[int, Field(ge=5)] = 5,
        shape: dict[str, int] = {},  # noqa: B006
    ) -> dict[str, Any]:
        given = {"count": count, "share": share, "mode": mode, "on": on, "name": name, "names": names}
        return given | {"numbers": numbers, "maybe": maybe, "big": big, "shape": shape}


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("count", "four")], "count: expected an integer, got 'four'"),
        ([("count", "1.5")], "count: expected an integer, got '1.5'"),
        ([("count", "")], "count: expected an integer, got ''"),
        ([("count", "x" * 100)], f"count: expected an integer, got '{'x' * 60}'..."),
        ([("maybe", "four")], "maybe: expected an integer, got 'four'"),
        ([("share", "half")], "share: expected a number, got 'half'"),
        ([("on", "yes")], "on: expected true or false, got 'yes'"),
        ([("mode", "medium")], "mode: expected 'soft' or 'hard', got 'medium'"),
        ([("mode", "5")], "mode: expected 'soft' or 'hard', got '5'"),
        ([("big", "4")], "big: Input should be greater than or equal to 5"),
        ([("shape", "x")], "shape: expected an object in JSON, got 'x'"),
        ([("shape", '{"a": "b"}')], "shape: Input should be a valid integer - at `$.a`"),
        ([("numbers", "1"), ("numbers", "b")], "numbers: Input should be a valid integer - at `$[1]`"),
        ([("count", "1"), ("count", "2")], "count: expected an integer, got 2 values"),
        ([("count", DEEP)], "count: "),
        ([("numbers", DEEP), ("numbers", DEEP)], "numbers: "),
        ([("shape", DEEP)], "shape: "),
    ],
)
def test_a_wrong_field_is_explained_to_those_who_fill_in_forms(call_once, fields, message):
    with pytest.raises(InvalidInput) as caught:
        call_once(Fields, "read", form(*[field(*pair) for pair in fields]), FORM)
    assert caught.value.message.startswith(f"Fields.read: {message}")


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ([("name", "5")], {"name": "5"}),
        ([("name", "null")], {"name": "null"}),
        ([("name", '"a"')], {"name": '"a"'}),
        ([("names", "5"), ("names", "true")], {"names": ["5", "true"]}),
        ([("names", "a")], {"names": ["a"]}),
        ([("numbers", "1"), ("numbers", "2")], {"numbers": [1, 2]}),
        ([("numbers", "7")], {"numbers": [7]}),
        ([("numbers", "[1, 2]")], {"numbers": [1, 2]}),
        (
            [("mode", "hard"), ("share", "1"), ("on", "true"), ("maybe", "3")],
            {"mode": "hard", "share": 1.0, "on": True},
        ),
    ],
)
def test_a_field_is_its_text_where_that_is_declared(call_once, fields, found):
    answer = msgspec.json.decode(call_once(Fields, "read", form(*[field(*pair) for pair in fields]), FORM).body)
    assert answer | found == answer


def test_a_deep_array_field_is_the_callers_mistake(call_once):
    body = form(("image", picture(), "a", ""), field("x", DEEP), field("n", "1"), field("tags", "a"))
    with pytest.raises(
        InvalidInput, match=r"Forms.mixed: x: expected an array as nested lists in JSON, or a .npy file"
    ):
        call_once(Forms, "mixed", body, FORM)


@pytest.mark.parametrize("size", [201, 20_000])
def test_a_boundary_is_bounded(size):
    with pytest.raises(InvalidInput, match=f"at most 200 characters, got {size}"):
        parse_form(f"multipart/form-data; boundary={'b' * size}", b"--" + b"b" * size)


@pytest.mark.parametrize("value", ["x", "[[1],[1,2]]", '[null, "a"]', "\x93NUMPY"])
def test_an_array_field_that_is_none_is_named(call_once, value):
    body = form(("image", picture(), "a", ""), field("x", value), field("n", "1"), field("tags", "a"))
    with pytest.raises(InvalidInput, match=r"Forms.mixed: x: "):
        call_once(Forms, "mixed", body, FORM)


WHOLE = form(("file", "hello", "a.txt", "text/plain"), field("note", "x"))


@settings(max_examples=25)
@given(st.integers(0, len(WHOLE) - 5))
def test_a_form_that_is_cut_short_is_refused(end):
    with pytest.raises(InvalidInput):
        parse_form(FORM, WHOLE[:end])


@settings(max_examples=25)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_form_are_refused(body):
    with pytest.raises(InvalidInput):
        parse_form(FORM, body)


def test_what_is_wrong_with_a_form_is_said_of_the_method(call_once):
    with pytest.raises(InvalidInput, match=r"^Forms.upload: the form is cut short: "):
        call_once(Forms, "upload", form(("file", "x", "a.txt", ""))[:-6], FORM)


def test_a_form_without_boundary_is_refused():
    with pytest.raises(InvalidInput, match="no boundary"):
        parse_form("multipart/form-data", WHOLE)


def test_a_part_without_a_name_is_refused():
    body = f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx\r\n--{BOUNDARY}--\r\n".encode()
    with pytest.raises(InvalidInput, match="name="):
        parse_form(FORM, body)


def test_parts_and_headers_are_bounded():
    with pytest.raises(PayloadTooLarge, match="1000 parts"):
        parse_form(FORM, form(*[field("a", "")] * 1001))
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\nX: {"y" * 9000}\r\n\r\n'.encode()
    with pytest.raises(InvalidInput, match="header size"):
        parse_form(FORM, head)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.binary(max_size=50)), max_size=5))
def test_parts_come_back_as_they_were_sent(parts):
    parts = [(name, value) for name, value in parts if BOUNDARY.encode() not in value]
    if not parts:
        return
    found = parse_form(FORM, form(*[(name, value, "f", "a/b") for name, value in parts]))
    assert [(part.name, part.body) for part in found] == parts
