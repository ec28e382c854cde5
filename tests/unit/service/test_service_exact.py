"""What pydantic reads is read as strictly as everything else: nothing is dropped, guessed, or no JSON."""

from __future__ import annotations

import dataclasses
import datetime
import math
import typing

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, RootModel

import trilith
from trilith.errors import InvalidInput
from trilith.service import spec_of
from trilith.service.codecs import types
from trilith.service.codecs.request import RequestDecoder


class Model(BaseModel):
    a: int
    default: float = 0.0  # a name that schemas use themselves


@dataclasses.dataclass
class Data:
    a: int


class Plain(typing.TypedDict):
    a: int
    b: typing.NotRequired[float]


class Extended(typing_extensions.TypedDict):
    a: int


class Below(Plain, total=False):
    inner: list[Plain]


class Open(BaseModel):
    model_config = ConfigDict(extra="ignore")
    a: int


class Kept(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class OpenKeys(typing_extensions.TypedDict):
    __pydantic_config__ = ConfigDict(extra="ignore")
    a: int


@dataclasses.dataclass
class Holder:
    inner: Below


def read(annotation: typing.Any, body: str) -> typing.Any:
    return types.read_json(types.adapter_of(annotation, "x"), body.encode(), "x")


CLASSES = (Model, Data, Plain, Extended, Below)
NESTED = [
    (lambda one: one, "{}"),
    (lambda one: list[one], "[{}]"),
    (lambda one: dict[str, one], '{{"k": {}}}'),
    (lambda one: one | None, "{}"),
    (lambda one: RootModel[one], "{}"),
]


@pytest.mark.parametrize("one", CLASSES)
@pytest.mark.parametrize(("nest", "body"), NESTED)
def test_an_unknown_key_is_refused_wherever_it_stands(one, nest, body):
    if nest is NESTED[-1][0] and one in (Plain, Below):
        pytest.skip("such a model cannot be declared on this Python: pydantic refuses it")
    annotation = nest(one)
    assert read(annotation, body.format('{"a": 1}')) is not None
    with pytest.raises(InvalidInput, match=r"zz`"):
        read(annotation, body.format('{"a": 1, "zz": 2}'))
    assert "'additionalProperties': False" in str(types.schemas_of([("k", "validation", types.adapter_of(one, "x"))]))


def test_who_says_what_becomes_of_unknown_keys_is_heard():
    assert read(Open, '{"a": 1, "zz": 2}') == Open(a=1)
    assert read(OpenKeys, '{"a": 1, "zz": 2}') == {"a": 1}
    assert read(Kept, '{"a": 1, "zz": 2}').zz == 2


def test_a_typed_dict_of_typing_is_read_whatever_python_it_is():
    assert read(Below, '{"a": 1, "inner": [{"a": 2, "b": 0.5}]}') == {"a": 1, "inner": [{"a": 2, "b": 0.5}]}
    assert read(Holder, '{"inner": {"a": 1}}') == Holder(inner={"a": 1})
    with pytest.raises(InvalidInput, match=r"Field required - at `\$.inner\[0\].a`"):
        read(Below, '{"a": 1, "inner": [{}]}')
    with pytest.raises(InvalidInput, match="valid number"):
        read(Plain, '{"a": 1, "b": "2"}')


@given(st.timedeltas())
def test_durations_are_days_and_seconds_and_come_back(value):
    adapter = types.adapter_of(list[datetime.timedelta], "x")
    written = types.write_json(adapter, [value])
    assert types.read_json(adapter, written, "x") == [value]
    assert b"Y" not in written
    assert b"M" not in written


@pytest.mark.parametrize("text", ["P1Y", "P1M", "P1Y35DT5S", "-P2M", "p1m"])
def test_a_duration_in_years_or_months_is_refused(text):
    with pytest.raises(InvalidInput, match="no years and no months"):
        read(datetime.timedelta, f'"{text}"')


@pytest.mark.parametrize(("text", "seconds"), [("PT1M", 60), ("P1W", 604800), ("P1DT5S", 86405), ("00:01:02", 62)])
def test_other_durations_are_read(text, seconds):
    assert read(datetime.timedelta, f'"{text}"').total_seconds() == seconds


def decoder(annotation: typing.Any) -> RequestDecoder:
    def take(f, other=None): ...

    take.__annotations__ = {"f": float, "other": annotation, "return": None}
    return RequestDecoder(spec_of(trilith.service(take)).methods["take"].signature, "take")


@pytest.mark.parametrize("annotation", [int | None, set[int] | None, Model | None])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_in_json_is_refused_whatever_else_a_method_takes(annotation, number):
    with pytest.raises(InvalidInput):
        decoder(annotation).decode("application/json", [f'{{"f": {number}}}'.encode()])


def test_texts_may_say_it_and_other_services_may_send_it():
    assert read(set[str], '["NaN", "Infinity"]') == {"NaN", "Infinity"}
    validator = types.value_validator(types.adapter_of(Model, "x"))
    assert types.read_value(validator, {"a": 1, "default": math.inf}, "x").default == math.inf
