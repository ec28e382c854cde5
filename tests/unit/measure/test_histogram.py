import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.measure.histogram import LARGEST_S, RELATIVE_ERROR, SMALLEST_S, DurationHistogram

durations_s = st.lists(st.floats(SMALLEST_S, LARGEST_S * 0.99), min_size=1, max_size=200)


def recorded(values):
    histogram = DurationHistogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(durations_s, st.floats(0.0, 1.0))
def test_a_percentile_is_within_the_promised_error_of_the_exact_one(values, fraction):
    exact = sorted(values)[max(1, math.ceil(fraction * len(values))) - 1]
    assert recorded(values).percentile_s(fraction) == pytest.approx(exact, rel=RELATIVE_ERROR * 1.01)


@given(durations_s)
def test_count_mean_and_extremes_are_exact(values):
    summary = recorded(values).summary()
    assert summary.count == len(values)
    assert summary.mean_s == pytest.approx(sum(values) / len(values))
    assert (summary.min_s, summary.max_s) == (min(values), max(values))


@given(durations_s)
def test_percentiles_are_in_order_and_between_the_extremes(values):
    summary = recorded(values).summary()
    assert summary.min_s <= summary.p50_s <= summary.p90_s <= summary.p99_s <= summary.max_s


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_durations_out_of_range_are_counted_and_never_leave_the_extremes(values):
    histogram = recorded(values)
    assert histogram.count == len(values)
    assert min(values) <= histogram.percentile_s(0.5) <= max(values)


def test_a_percentile_of_what_took_no_time_is_zero():
    summary = recorded([0.0, 0.0, 0.0, 2.0]).summary()
    assert (summary.p50_s, summary.p90_s) == (0.0, 2.0)


def test_an_empty_histogram_is_all_zero():
    summary = DurationHistogram().summary()
    assert (summary.count, summary.mean_s, summary.min_s, summary.p99_s, summary.max_s) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan])
def test_a_fraction_outside_0_to_1_is_refused(fraction):
    with pytest.raises(ValueError, match="between 0 and 1"):
        DurationHistogram().percentile_s(fraction)
