"""JSON in and out: the fast decoder and pydantic's must agree, and name what is wrong."""

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field

import trilith
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.service import spec_of
from trilith.service.codecs import native
from trilith.service.codecs.request import RequestDecoder
from trilith.service.codecs.result import ResultEncoder
from trilith.wire.calls import NATIVE_CONTENT_TYPE

JSON = "application/json"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    text: str
    score: float = 1.0


class Page(BaseModel):
    number: int
    lines: list[Line] = []


def codecs(annotation: Any) -> tuple[RequestDecoder, ResultEncoder]:
    def same(x):
        return x

    same.__annotations__ = {"x": annotation, "return": annotation}
    signature = spec_of(trilith.service(same)).methods["same"].signature
    return RequestDecoder(signature, "same"), ResultEncoder(signature.result, "same")


def decode(annotation: Any, body: bytes) -> Any:
    arguments = codecs(annotation)[0].decode(JSON, [body])
    return next(iter([*arguments.args, *arguments.kwargs.values()]))


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",)))

CASES = {
    "int": (int, st.integers()),
    "float": (float, FLOATS),
    "bool": (bool, st.booleans()),
    "text": (str, TEXT),
    "floats": (list[float], st.lists(FLOATS)),
    "nested": (dict[str, list[int | None]], st.dictionaries(TEXT, st.lists(st.none() | st.integers()))),
    "optional": (str | None, st.none() | TEXT),
    "union": (int | str | list[bool], st.integers() | TEXT | st.lists(st.booleans())),
    "tuple": (tuple[int, str], st.tuples(st.integers(), TEXT)),
    "set": (set[int], st.sets(st.integers())),
    "literal": (Literal["a", 1], st.sampled_from(["a", 1])),
    "enum": (Colour, st.sampled_from(Colour)),
    "date": (datetime.date, st.dates()),
    "datetime": (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    "uuid": (uuid.UUID, st.uuids()),
    "decimal": (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3)),
    "dataclass": (Line, st.builds(Line, TEXT, FLOATS)),
    "model": (Page, st.builds(Page, number=st.integers(), lines=st.lists(st.builds(Line, TEXT, FLOATS)))),
    "bytes in a list": (dict[str, bytes], st.dictionaries(TEXT, st.binary())),
    "bytes": (bytes, st.binary()),
}


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case):
    annotation, values = CASES[case]
    decoder, encoder = codecs(annotation)

    @settings(max_examples=25)
    @given(values)
    def check(value):
        content_type, [body] = encoder.encode(value, JSON)
        assert content_type == JSON
        arguments = decoder.decode(JSON, [b'{"x": ' + bytes(body) + b"}"])
        [found] = [*arguments.args, *arguments.kwargs.values()]
        assert found == value
        assert type(found) is type(value)

    check()


@pytest.mark.parametrize("annotation", [list[float], Annotated[list[float], Field(max_length=99)]])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty; expected an object with x$"),
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON|invalid"),
        (b"[1]", "object|dict"),
        (b"{}", r"Field required - at `\$\.x`"),
        (b'{"x": [1], "y": 2}', r"Extra inputs are not permitted - at `\$\.y`"),
        (b'{"x": [1, "2"]}', r"Input should be a valid number - at `\$\.x\[1\]`"),
        (b'{"x": [1, true]}', r"Input should be a valid number - at `\$\.x\[1\]`"),
        (b'{"x": 1}', r"Input should be a valid array - at `\$\.x`"),
        (b'{"x": null}', r"- at `\$\.x`"),
        (b'{"x": ' + b"[" * 100_000, r"JSON|recursion|\$\.x\[0\]"),
    ],
)
def test_what_is_wrong_is_named_by_both_decoders(annotation, body, message):
    decoder = codecs(annotation)[0]
    assert (decoder.plain) == (annotation == list[float])
    with pytest.raises(InvalidInput, match=f"(?s)^same: .*({message})"):
        decoder.decode(JSON, [body])


@settings(max_examples=25)
@given(st.recursive(st.none() | st.booleans() | st.integers() | FLOATS | TEXT, st.lists))
def test_both_decoders_accept_the_same(value):
    body = json.dumps({"x": value}).encode()
    outcomes = []
    for annotation in (list[float | None], Annotated[list[float | None], Field()]):
        try:
            outcomes.append(decode(annotation, body))
        except InvalidInput:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


def test_defaults_are_the_functions_own():
    @trilith.service
    def several(a: int, b: str = "b", *, c: float | None = None) -> int:
        return a

    decoder = RequestDecoder(spec_of(several).methods["several"].signature, "several")
    arguments = decoder.decode(JSON, [b'{"a": 1}'])
    assert arguments.kwargs == {"a": 1, "b": "b", "c": None}

    @trilith.service
    def mutable(a: int, b: list[int] = [1]) -> int:  # noqa: B006
        return a

    decoder = RequestDecoder(spec_of(mutable).methods["mutable"].signature, "mutable")
    assert decoder.decode(JSON, [b'{"a": 1}']).kwargs == {"a": 1}


def test_a_positional_only_parameter_is_the_whole_body():
    @trilith.service
    def whole(page: Page, /) -> int:
        return page.number

    decoder = RequestDecoder(spec_of(whole).methods["whole"].signature, "whole")
    assert decoder.decode(JSON, [b'{"number": 4}']).args == (Page(number=4),)

    @trilith.service
    def numbers(xs: list[int], /) -> int:
        return sum(xs)

    decoder = RequestDecoder(spec_of(numbers).methods["numbers"].signature, "numbers")
    assert decoder.decode(JSON, [memoryview(b"[1,2]")]).args == ([1, 2],)
    with pytest.raises(InvalidInput, match=r"\$\[1\]"):
        decoder.decode(JSON, [b'[1,"2"]'])


def test_the_content_type_may_have_parameters_or_be_missing():
    decoder = codecs(int)[0]
    for content_type in ("Application/JSON; charset=utf-8", "application/vnd.x+json", ""):
        assert decoder.decode(content_type, [b'{"x": 3}']).args == (3,)


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/x-npy"])
def test_another_content_type_is_refused(content_type):
    with pytest.raises(UnsupportedMediaType, match=f"same reads application/json; got {content_type}"):
        codecs(int)[0].decode(content_type, [b'{"x": 3}'])


def test_curls_default_content_type_gets_a_hint():
    with pytest.raises(UnsupportedMediaType, match="add -H 'Content-Type: application/json'"):
        codecs(int)[0].decode("application/x-www-form-urlencoded", [b'{"x": 3}'])


def test_constraints_are_checked():
    with pytest.raises(InvalidInput, match=r"greater than or equal to 0 - at `\$\.x`"):
        decode(Annotated[int, Field(ge=0)], b'{"x": -1}')


def test_all_that_is_wrong_is_named():
    @trilith.service
    def several(a: int, b: list[float], c: dict[str, int], d: str | None = None) -> int:
        return a

    decoder = RequestDecoder(spec_of(several).methods["several"].signature, "several")
    with pytest.raises(InvalidInput) as caught:
        decoder.decode(JSON, [b'{"b": [1, "x"], "c": {"k": true}, "d": 5, "e": 1}'])
    assert caught.value.message == (
        "several: Field required - at `$.a`; Extra inputs are not permitted - at `$.e`; "
        "Input should be a valid number - at `$.b[1]`; Input should be a valid integer - at `$.c.k`; "
        "Input should be a valid string or null - at `$.d`"
    )
    with pytest.raises(InvalidInput, match=r"^several: the body is empty; expected an object with a, b, c, d$"):
        decoder.decode(JSON, [b""])
    with pytest.raises(InvalidInput, match=r"^several: Input should be a valid integer - at `\$.a`$"):
        decoder.decode(JSON, [b'{"a": "x", '])  # what comes after the first mistake is no JSON


def test_an_empty_body_is_enough_where_all_have_defaults():
    @trilith.service
    def relaxed(a: int = 1) -> int:
        return a

    decoder = RequestDecoder(spec_of(relaxed).methods["relaxed"].signature, "relaxed")
    for content_type in (JSON, "application/json; charset=utf-8", ""):
        assert decoder.decode(content_type, [b""]).kwargs == {}
    assert decoder.decode_plain(b"").args == ()


def test_an_empty_body_that_is_one_value():
    @trilith.service
    def whole(xs: list[int], /) -> int:
        return sum(xs)

    decoder = RequestDecoder(spec_of(whole).methods["whole"].signature, "whole")
    with pytest.raises(InvalidInput, match=r"^whole: the body is empty; expected list\[int\]$"):
        decoder.decode(JSON, [b""])


def test_many_errors_are_cut():
    with pytest.raises(InvalidInput, match=r"`\$\.x\[19\]`; and 5 more$"):
        decode(Annotated[list[int], Field()], json.dumps({"x": ["a"] * 25}).encode())


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list[int], object()),
        (Page, "no page"),
        (Line, 5),
        (Colour, "red!"),
        (set[int], {"a"}),
        (int, "x"),
        (int, None),
        (int, 1.0),
        (int, True),
        (int, np.float64(1)),
        (bool, 1),
        (float, "1"),
        (float, True),
        (str, b"a"),
        (None, 1),
        (float | None, "1"),
        (list[int], ["a"]),
        (list[int], [True]),
        (list[int], {1}),
        (list[int], "12"),
        (list[float], np.zeros(2)),
        (list, {}),
        (dict, []),
        (dict[str, int], [1]),
        (dict[str, int], {"a": "b"}),
        (dict[str, int], {1: 1}),
        (dict[str, list[int | None]], {"a": [1, None, "x"]}),
        (list[int] | str, [1.5]),
        (Line, None),
        (list[Line], [None]),
        (Literal["a", "b"], "c"),
        (Annotated[int, Field(gt=0)], -1),
        (Annotated[list[float], Field()], ["1"]),
        (tuple[int, str], None),
        (datetime.date, "today"),
        (bytes, "text"),
        (bytes, None),
        (dict[str, bytes], {"a": "b"}),
        (np.ndarray, [1.0]),
        (np.ndarray, None),
        (NDArray[np.int32], np.float64([1.5])),
        (NDArray[np.uint8], np.array([300])),
        (list[np.ndarray], np.zeros(2)),
        (Image.Image, 5),
        (pathlib.Path, "name"),
    ],
)
@pytest.mark.parametrize("encode", ["json", "npy", "native"])
def test_a_result_of_another_type_is_the_services_fault(annotation, value, encode):
    encoder = codecs(annotation)[1]
    with pytest.raises(TypeError, match=r"^same returned .* and declares "):
        encoder.encode_native(value) if encode == "native" else encoder.encode(value, f"application/{encode}")


@pytest.mark.parametrize(
    ("annotation", "value", "body"),
    [
        (float, 1, b"1"),
        (float, float("nan"), b"null"),
        (float, np.float32(1.5), b"1.5"),
        (int, np.int64(3), b"3"),
        (bool, np.bool_(True), b"true"),
        (str, np.str_("a"), b'"a"'),
        (list[int], (1, np.uint8(2)), b"[1,2]"),
        (list[float], [1, 2.5, np.float64(3)], b"[1,2.5,3.0]"),
        (dict[str, int], collections.Counter("aab"), b'{"a":2,"b":1}'),
        (dict, {"a": [1, None]}, b'{"a":[1,null]}'),
        (int | str | None, None, b"null"),
        (NDArray[np.float32], np.array([1, 2]), b"[1.0,2.0]"),
        (np.ndarray, np.float32(2), b"2.0"),
        (list[np.ndarray], [np.zeros(1)], b"[[0.0]]"),
        (np.ndarray | None, None, b"null"),
        (Line | None, Line("a"), b'{"text":"a","score":1.0}'),
    ],
)
def test_what_python_takes_for_the_declared_type_is_written(annotation, value, body):
    encoder = codecs(annotation)[1]
    assert bytes(encoder.encode(value, JSON)[1][0]) == body
    encoder.encode_native(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "1"),
        (int, True),
        (float, "1"),
        (list[int], [1, "2"]),
        (dict[str, float], {"a": True}),
        (Line, {"text": "a", "score": "1"}),
        (Line, {"text": 5}),
        (Page, {"number": "1"}),
        (Page, {"number": 1, "lines": [{"text": 5}]}),
        (Annotated[int, Field(gt=0)], "1"),
        (tuple[int, str], ["1", "a"]),
        (bytes, "text"),
        (dict[str, bytes], {"a": 5}),
        (NDArray[np.int32], [1]),
        (list[np.ndarray], [1]),
    ],
)
def test_another_service_is_read_as_strictly_as_a_body(annotation, value):
    decoder = codecs(annotation)[0]
    with pytest.raises(InvalidInput, match=r"^same: x: "):
        decoder.decode(NATIVE_CONTENT_TYPE, native.pack_call([value], {}))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, 1),
        (Line, Line("a")),
        (Page, Page(number=1, lines=[Line("b", 2)])),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (datetime.datetime, datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC)),
        (Colour, Colour.RED),
        (uuid.UUID, uuid.UUID(int=5)),
        (decimal.Decimal, decimal.Decimal("1.50")),
        (Literal["a", 1], 1),
    ],
)
def test_what_another_service_sends_is_what_it_was(annotation, value):
    arguments = codecs(annotation)[0].decode(NATIVE_CONTENT_TYPE, native.pack_call([value], {}))
    assert arguments.args == (value,)
    assert type(arguments.args[0]) is type(value) or annotation is float


def test_a_type_that_json_cannot_hold_is_refused_when_codecs_are_built():
    class Strange:
        pass

    with pytest.raises(trilith.errors.InvalidConfig, match="parameter 'x': Strange cannot be read from JSON"):
        codecs(Strange)[0].prepare()


@pytest.mark.parametrize("annotation", [str, Annotated[str, Field(max_length=99)]])
@pytest.mark.parametrize("text", [rb"\ud800", rb"\ud800 and more", rb"\udc00"])
def test_half_a_character_is_said_to_be_one(annotation, text):
    decoder = codecs(annotation)[0]
    with pytest.raises(InvalidInput, match="surrogate"):
        decoder.decode(JSON, [b'{"x": "' + text + b'"}'])
    found = decoder.decode(JSON, [rb'{"x": "\ud83d\ude00"}'])
    assert [*found.args, *found.kwargs.values()] == ["\U0001f600"]
