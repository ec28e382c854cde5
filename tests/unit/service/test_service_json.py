"""JSON in and out: the fast decoder and pydantic's must agree, and name what is wrong."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import trilith
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.service import spec_of
from trilith.service.codecs.request import RequestDecoder
from trilith.service.codecs.result import ResultEncoder

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
        (b"", "empty body|EOF"),
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON|invalid"),
        (b"[1]", "object|dict"),
        (b"{}", "required field `x`|Field required - at `\\$.x`"),
        (b'{"x": [1], "y": 2}', "unknown field `y`|Extra inputs are not permitted - at `\\$.y`"),
        (b'{"x": [1, "2"]}', r"- at `\$\.x\[1\]`"),
        (b'{"x": [1, true]}', r"- at `\$\.x\[1\]`"),
        (b'{"x": 1}', r"- at `\$\.x`"),
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


def test_many_errors_are_cut():
    with pytest.raises(InvalidInput, match=r"and 2 more$"):
        decode(Annotated[list[int], Field()], b'{"x": ["a", "b", "c", "d", "e"]}')


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(list[int], object()), (Page, "no page"), (Line, 5), (Colour, "red"), (set[int], {"a"})],
)
def test_a_result_of_another_type_is_the_services_fault(annotation, value):
    with pytest.raises(TypeError, match=r"^same returned .* and declares "):
        codecs(annotation)[1].encode(value)


def test_a_type_that_json_cannot_hold_is_refused_when_codecs_are_built():
    class Strange:
        pass

    with pytest.raises(trilith.errors.InvalidConfig, match="parameter 'x': Strange cannot be read from JSON"):
        codecs(Strange)[0].prepare()
