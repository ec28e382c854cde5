"""Numbers in messages have no exponents, and are the numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.load_options import Range
from trilith.core.plain_numbers import plain_number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1_000_000, "1000000"),
        (1e6, "1000000"),
        (1234567.5, "1234567.5"),
        (0.001, "0.001"),
        (1e-6, "0.000001"),
        (-0.5, "-0.5"),
        (0, "0"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (1e300, "1e+300"),
    ],
)
def test_numbers(number, text):
    assert plain_number(number) == text


@given(st.floats(-1e14, 1e14) | st.integers(-(10**14), 10**14))
def test_nothing_is_lost(number):
    text = plain_number(number)
    assert float(text) == number
    assert "e" not in text


def test_ranges_have_plain_bounds():
    assert str(Range(1, 1 << 20)) == "from 1 to 1048576"
