"""Quantiles of the last minute."""

import math

from hypothesis import given
from hypothesis import strategies as st

from trilith.telemetry import SlidingQuantiles


@given(
    st.lists(st.tuples(st.floats(1e-8, 1e8), st.integers(1, 5)), min_size=1, max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_a_quantile_is_within_a_percent(observed, quantiles):
    seen = SlidingQuantiles()
    for value, times in observed:
        seen.observe(value, times, 5.0)
    everything = sorted(value for value, times in observed for _ in range(times))
    for quantile, found in zip(quantiles, seen.values(quantiles, 6.0), strict=True):
        exact = everything[max(1, math.ceil(quantile * len(everything))) - 1]
        assert abs(found - exact) <= 0.0101 * exact
    assert seen.count == len(everything)
    assert math.isclose(seen.total, sum(value * times for value, times in observed))


def test_what_is_a_minute_old_is_forgotten_but_counted():
    seen = SlidingQuantiles()
    assert math.isnan(seen.values([0.5], 0.0)[0])
    seen.observe(0.0, 1, 0.0)
    assert seen.values([0.5, 1.0], 11.0) == [0.0, 0.0]
    seen.observe(1e12, 3, 30.0)
    assert 0.98e9 < seen.values([0.5], 30.0)[0] < 1.02e9
    assert seen.values([0.0], 30.0) == [0.0]
    assert seen.values([0.0], 61.0)[0] > 0
    assert math.isnan(seen.values([0.5], 97.0)[0])
    assert (seen.count, seen.total) == (4, 3e12)


def test_memory_is_bounded():
    seen = SlidingQuantiles()
    for at in range(20_000):
        seen.observe(1.01 ** (at % 3000) * 1e-9, 1, at / 10)
    assert sum(len(counted) for _, counted in seen._slices) < 5 * 2200
