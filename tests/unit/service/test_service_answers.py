"""Results of several parts, what `Accept` asks for, and text as a whole body."""

import dataclasses
import io
import json
import pathlib
from typing import Annotated, Any, NotRequired

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import trilith
from trilith.errors import InvalidInput, NotAcceptable, UnsupportedMediaType
from trilith.service import describe, openapi_document, spec_of
from trilith.service.client.encoding import decode_answer, encode_arguments
from trilith.service.client.operations import read_operations
from trilith.service.codecs import media
from trilith.service.codecs.multipart import parse_form
from trilith.service.codecs.result import ResultDecoder, ResultEncoder

RED = Image.new("RGB", (2, 1), (255, 0, 0))


@dataclasses.dataclass
class Found:
    picture: Image.Image
    boxes: NDArray[np.float32]
    labels: list[str]
    table: pd.DataFrame
    crops: list[Image.Image] = dataclasses.field(default_factory=list)
    raw: bytes | None = None


class Typed(TypedDict):
    picture: Image.Image
    score: float
    note: NotRequired[bytes]


class Model(BaseModel):
    picture: Annotated[Image.Image, trilith.ContentType("image/*")]
    table: Annotated[pd.DataFrame, trilith.Frame({"a": int})]
    box: Annotated[np.ndarray, trilith.Shape(4)]
    raw: Annotated[bytes, trilith.ContentType("*/*")] = b""


def codecs(annotation: Any) -> tuple[ResultEncoder, ResultDecoder, Any]:
    def same():
        return None

    same.__annotations__ = {"return": annotation}
    decorated = trilith.service(same)
    signature = spec_of(decorated).methods["same"].signature
    [operation, *_] = read_operations(openapi_document(describe(decorated)), "http://server")
    return ResultEncoder(signature.result, "same"), ResultDecoder(signature, "same"), operation


def asked(operation: Any) -> str:
    return encode_arguments(operation, {}).accept


def test_a_tuple_with_a_picture():
    encoder, results, operation = codecs(tuple[Image.Image, dict[str, int]])
    content_type, [body] = encoder.encode((RED, {"a": 1}))
    assert content_type == media.JSON
    assert json.loads(body)[1] == {"a": 1}
    content_type, [body] = encoder.encode((RED, {"a": 1}), "multipart/form-data")
    picture, value = parse_form(content_type, body)
    assert (picture.name, picture.filename, picture.content_type) == ("0", "0.png", "image/png")
    assert (value.name, value.filename, value.body) == ("1", None, b'{"a":1}')
    for accept in (media.JSON, "multipart/form-data", asked(operation)):
        kind, [body] = encoder.encode((RED, {"a": 1}), accept)
        if media.media_type(kind) == media.FORM:
            found, value = decode_answer(operation, kind, body)
            assert (found.size, found.getpixel((0, 0)), value) == ((2, 1), (255, 0, 0), {"a": 1})
    found, value = results.decode(encoder.encode_native((RED, {"a": 1})))
    assert (found.getpixel((0, 0)), value) == ((255, 0, 0), {"a": 1})


def test_a_dataclass_of_many_things():
    encoder, results, operation = codecs(Found)
    boxes = np.array([[1, 2]], np.float32)
    value = Found(RED, boxes, ["x"], pd.DataFrame({"a": [1]}), [RED, RED], b"\0")
    kind, [body] = encoder.encode(value, asked(operation))
    assert [part.name for part in parse_form(kind, body)] == [
        *("picture", "boxes", "labels", "table", "crops", "crops", "raw")
    ]
    found = decode_answer(operation, kind, body)
    assert found["boxes"].dtype == np.float32
    assert found["boxes"].tolist() == [[1, 2]]
    assert found["table"].to_dict("list") == {"a": [1]}
    assert [crop.size for crop in found["crops"]] == [(2, 1)] * 2
    assert (found["labels"], found["raw"]) == (["x"], b"\0")
    value = Found(RED, boxes, [], pd.DataFrame({"a": [1]}))
    found = decode_answer(
        operation, *(lambda kind, buffers: (kind, buffers[0]))(*encoder.encode(value, asked(operation)))
    )
    assert (found["crops"], found["raw"], found["labels"]) == ([], None, [])
    assert results.decode(encoder.encode_native(value)).boxes.tolist() == [[1, 2]]


@pytest.mark.parametrize("accept", [media.JSON, "multipart/form-data"])
def test_typed_dicts_and_models(accept):
    encoder, results, operation = codecs(Typed)
    kind, [body] = encoder.encode({"picture": RED, "score": 0.5}, accept)
    if accept != media.JSON:
        found = decode_answer(operation, kind, body)
        assert (found["picture"].size, found["score"], "note" in found) == ((2, 1), 0.5, False)
    assert results.decode(encoder.encode_native({"picture": RED, "score": 0.5}))["score"] == 0.5
    with pytest.raises(TypeError, match=r"expected an image|picture"):
        encoder.encode({"picture": "x", "score": 0.5}, accept)
    encoder, results, operation = codecs(Model)
    model = Model(picture=RED, table=pd.DataFrame({"a": [1]}), box=np.zeros(4), raw=b"\xff")
    kind, [body] = encoder.encode(model, accept)
    if accept == media.JSON:
        again = Model.model_validate_json(body)
    else:
        found = decode_answer(operation, kind, body)
        again = Model(**found)
    again = results.decode(encoder.encode_native(again))
    assert (again.picture.size, again.table["a"].tolist(), again.box.tolist()) == ((2, 1), [1], [0.0] * 4)
    assert again.raw == b"\xff"


NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="%"), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=20), max_size=3))
def test_a_dict_of_files(value):
    encoder, _, operation = codecs(dict[str, bytes])
    kind, [body] = encoder.encode(value, asked(operation))
    assert media.media_type(kind) == media.FORM
    assert decode_answer(operation, kind, body) == value


def test_files_are_parts_and_reach_other_services(tmp_path):
    file = tmp_path / 'a "b".txt'
    file.write_text("x")
    encoder, results, operation = codecs(tuple[pathlib.Path, list[pathlib.Path]])
    kind, [body] = encoder.encode((file, [file, file]), "multipart/form-data")
    parts = parse_form(kind, body)
    assert [(part.name, part.content_type, part.body) for part in parts] == [
        ("0", "text/plain", b"x"),
        *[("1", "text/plain", b"x")] * 2,
    ]
    assert decode_answer(operation, kind, body) == (b"x", [b"x", b"x"])
    assert results.decode(encoder.encode_native((file, [file]))) == (b"x", [b"x"])


def test_a_part_that_is_wrong_is_the_services_mistake():
    encoder = codecs(Found)[0]
    with pytest.raises(TypeError, match="picture"):
        encoder.encode(Found("x", np.zeros(1, np.float32), [], pd.DataFrame()), "multipart/form-data")  # type: ignore[arg-type]


@trilith.service
class Texts:
    @trilith.api
    async def upper(self, text: str) -> str:
        return text.upper()

    @trilith.api
    async def root(self, text: Annotated[str, Field(max_length=5)], /) -> int:
        return len(text)

    @trilith.api
    async def number(self, x: int) -> int:
        return x

    @trilith.api
    async def short(self, data: Annotated[bytes, Field(max_length=3)]) -> int:
        return len(data)

    @trilith.api
    def picture(self) -> Image.Image:
        return RED


def test_text_is_a_body_and_an_answer(serve):
    async def scenario(host):
        assert await host.body("upper", "ä".encode(), "text/plain") == '"Ä"'.encode()
        assert await host.body("upper", b"\xe4", "text/plain; charset=latin-1") == '"Ä"'.encode()
        answer = await host.call("upper", b'{"text": "\xc3\xa4"}', accept="text/plain")
        assert (answer.meta.content_type, answer.body) == ("text/plain; charset=utf-8", "Ä".encode())
        assert (await host.call("upper", b'{"text": "a"}', accept="text/html, */*;q=0.8")).body == b'"A"'
        assert await host.body("root", b"12345", "text/plain") == b"5"
        for method, body, kind, message in (
            ("root", b"123456", "text/plain", "at most 5 characters"),
            ("upper", b"\xff", "text/plain", "expected text in UTF-8"),
            ("short", b"1234", "application/octet-stream", "at most 3"),
            ("short", b'{"data": "MTIzNA=="}', "application/json", "at most 3"),
        ):
            with pytest.raises(InvalidInput, match=message):
                await host.body(method, body, kind)
        for kind in ("text/plain; charset=klingon", "text/plain; charset=punycode", "text/html"):
            with pytest.raises(UnsupportedMediaType):
                await host.body("upper", b"a", kind)
        with pytest.raises(UnsupportedMediaType, match="JSON is UTF-8; got the charset latin-1"):
            await host.body("upper", b'{"text": "a"}', "application/json; charset=latin-1")
        assert await host.body("upper", b'{"text": "a"}', 'application/json; charset="UTF-8"') == b'"A"'
        with pytest.raises(UnsupportedMediaType, match="reads application/json; got text/plain"):
            await host.body("number", b"1", "text/plain")

    serve(Texts, scenario)


def test_accept_is_looked_at_before_the_method_runs(serve):
    async def scenario(host):
        for accept in ("*/*", "application/json", "application/*;q=0.1", "text/html, */*;q=0.1", "", None):
            assert await host.body("number", b'{"x": 1}', accept=accept) == b"1"
        for accept in ("text/html", "image/*", "application/json;q=0", "nonsense"):
            with pytest.raises(NotAcceptable, match=r"^Texts.number answers with application/json; Accept has "):
                await host.body("number", b'{"x": 1}', accept=accept)
        for accept, kind in (
            ("image/webp", "image/webp"),
            ("image/*", "image/png"),
            ("image/gif, */*;q=0.1", "image/png"),
        ):
            answer = await host.call("picture", accept=accept)
            assert answer.meta.content_type == kind
            assert Image.open(io.BytesIO(answer.body)).size == (2, 1)
        with pytest.raises(NotAcceptable):
            await host.call("picture", accept="image/gif")

    serve(Texts, scenario)
