"""Numbers of YAML files are those of YAML 1.2; texts stay texts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.config import dump_yaml, parse_yaml
from trilith.errors import InvalidConfig

ALMOST = st.from_regex(r"[-+]?[0-9.]{1,4}[eE_][-+]?[0-9]{1,3}", fullmatch=True)


def read(text):
    return parse_yaml(f"a: {text}", source="x")["a"]


@pytest.mark.parametrize(
    "text", ["1e6", "1E6", "+1e6", "-1e6", "1.e6", "1.5e6", ".5e6", "1e+6", "1e-6", "1.0e+6", "0e0"]
)
def test_powers_are_numbers(text):
    found = read(text)
    assert type(found) is float
    assert found == float(text)


def test_one_beyond_all_numbers_is_infinite():
    assert read("1e999") == math.inf


@pytest.mark.parametrize(
    "text",
    [
        *("e6", "1e", "1e6x", "x1e6", "1e6.5", "1_0e6", "1e6 7", "0x1e6z", "1.2.3e4", "--1e6"),
        *("1e 6", "v1e6", ".e6", "\u0661e6", "12e"),
    ],
)
def test_other_texts_stay_texts(text):
    assert read(text) == text


@pytest.mark.parametrize("text", ['"1e6"', "'1e6'", "!!str 1e6"])
def test_quoted_ones_are_texts(text):
    assert read(text) == "1e6"


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("0x1e6", 0x1E6), ("1.5", 1.5), (".inf", math.inf)])
def test_what_was_a_number_is_one(text, value):
    assert read(text) == value
    assert type(read(text)) is type(value)


def test_a_key_is_told_as_it_is():
    assert parse_yaml("1e6: a", source="x") == {1e6: "a"}
    with pytest.raises(InvalidConfig, match=r"the key 1000000\.0 stands twice"):
        parse_yaml("1e6: a\n1e+6: b", source="x")


@given(st.one_of(ALMOST, st.floats(allow_nan=False)))
def test_what_is_written_is_read_again(value):
    found = parse_yaml(dump_yaml({"a": value, "b": [value]}), source="x")
    assert found == {"a": value, "b": [value]}
    assert type(found["a"]) is type(value)
