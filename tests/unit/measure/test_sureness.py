import math
import random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.measure import DurationHistogram, stability
from trilith.measure.batch_means import batches, interval, percentile_interval
from trilith.measure.load import Recorder
from trilith.measure.seconds import NOT_SURE, seconds_of, sureness

figures = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 1e4)), min_size=3, max_size=40)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(), max_size=200))
def test_batches_are_of_one_size_in_order_and_leave_little_out(values):
    found = batches(values)
    if len(values) < 5:
        assert found == []
        return
    assert 5 <= len(found) <= 10
    assert len({len(batch) for batch in found}) == 1
    joined = [value for batch in found for value in batch]
    assert joined == values[: len(joined)]
    assert len(values) - len(joined) < len(found)


def test_an_interval_contains_the_truth_as_often_as_it_says():
    draw = random.Random(7)
    held = 0
    for _ in range(400):
        found = interval([draw.gauss(100, 15) for _ in range(10)])
        held += found.low <= 100 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_an_interval_of_many_batches_nears_the_normal_one():
    found = interval([0.0, 2.0] * 50)
    assert found.value == 1.0
    assert found.high - found.low == pytest.approx(2 * 1.984 * 1.005 / 10, rel=0.001)
    assert interval([1.0] * 4) is None
    assert interval([3.0] * 5).half_share == 0


@settings(max_examples=20, deadline=None)
@given(figures, figures)
def test_stability_does_not_depend_on_units_and_sees_no_movement_in_what_stands_still(throughput, latency):
    judged = stability(throughput, latency)
    scaled = stability([1000 * value for value in throughput], latency)
    assert judged.stable == scaled.stable
    assert judged.throughput.spread == pytest.approx(scaled.throughput.spread)
    assert stability([throughput[0]] * 9, [latency[0]] * 9).words() == ""
    assert (judged.words() == "") == judged.stable


def test_what_moved_is_told():
    assert stability([100, 100, 100], [1, 1.2, 1.5]).words() == "latency rose 50% from the first third to the last"
    assert "throughput fell 50%" in stability([10, 10, 8, 8, 5, 5], [1, 1, 1]).words()
    assert "went up and down" in stability([10, 20, 10], [1, 1, 1]).words()
    assert stability([1, 2], [1, 2]) is None


def test_a_server_that_died_did_not_stand_still():
    judged = stability([100.0] * 20 + [0.0] * 10, [0.01] * 20)
    assert not judged.stable
    assert judged.words() == "throughput fell 100% from the first third to the last"
    assert stability([0.0] * 10 + [100.0] * 20, [0.01] * 20).words() == "throughput rose from 0 in the first third"
    assert stability([9.0] * 10 + [0.0] * 10 + [9.0] * 10, [1] * 20).words() == "throughput went up and down to 0"
    assert not stability([100.0, 100.0, 0.0, 0.0, 0.0, 0.0], [0.01] * 2).stable  # only two slices have a latency
    assert stability([0.0] * 30, []) is None


def test_slices_that_resemble_their_neighbours_are_no_movement():
    draw, moved = random.Random(5), 0
    for _ in range(400):
        values, state = [], 0.0
        for _ in range(24):
            state = 0.6 * state + draw.gauss(0, 12)
            values.append(100 + state)
        moved += not stability(values, [1.0] * 24).throughput.steady
    assert moved / 400 < 0.10


def test_an_interval_of_the_p99_contains_the_truth_as_often_as_it_says():
    draw, held, tries, answers = random.Random(2), 0, 60, 250
    for _ in range(tries):
        groups = [DurationHistogram() for _ in range(10)]
        for group in groups:
            for _ in range(answers):
                group.record(draw.expovariate(100))
        found = percentile_interval(groups, 0.99)
        held += found is None or found.low <= -math.log(0.01) / 100 <= found.high
    assert held / tries >= 0.93


def test_few_answers_have_no_interval_of_the_p99():
    recorder = recorded([(at / 60, 0.001 + at / 1e6) for at in range(600)], 10.0)
    assert sureness(recorder, 10.0).p99_s is None
    assert sureness(recorder, 10.0).mean_s is not None
    recorder = recorded([(at / 100, 0.001) for at in range(1000)], 10.0)
    interval_s = sureness(recorder, 10.0).p99_s
    assert interval_s.low == interval_s.value == interval_s.high


def test_what_chance_explains_has_not_moved():
    draw = random.Random(3)
    few = [draw.choice([0, 4, 12]) for _ in range(21)]
    assert stability(few, [1.0] * 21).throughput.steady
    assert not stability([*few[:14], *(60 + value for value in few[14:])], [1.0] * 21).throughput.steady


def recorded(latencies, elapsed_s, slice_s=0.5):
    recorder = Recorder(started_at=100.0, slice_s=slice_s, ended_at=100.0 + elapsed_s)
    for at, latency in latencies:
        recorder.success(latency, 100.0 + at)
    return recorder


def test_seconds_add_up():
    recorder = recorded([(0.1, 1e-3), (0.7, 3e-3), (1.2, 2e-3), (2.4, 5e-3)], 2.5)
    recorder.error("timeout", 101.6)
    recorder.success(9.0, 103.0)  # after the end: it counts, and belongs to no second
    seconds = seconds_of(recorder, 2.5)
    assert [second.requests_per_s for second in seconds] == [2, 1, 2]
    assert [second.failed for second in seconds] == [0, 1, 0]
    assert seconds[0].max_s == 3e-3
    assert seconds[2].length_s == 0.5
    assert recorder.latencies.count == 5
    assert recorder.answered == 4
    assert seconds_of(Recorder(), 0.0) == ()


def test_figures_of_a_level_have_intervals():
    draw = random.Random(1)
    recorder = recorded([(at / 1000, draw.uniform(0.001, 0.002)) for at in range(10_000)], 10.0)
    sure = sureness(recorder, 10.0)
    assert sure.requests_per_s.low <= 1000 <= sure.requests_per_s.high
    assert sure.mean_s.low < 0.0015 < sure.mean_s.high
    assert sure.p99_s.half_share < 0.05
    assert sure.stability.stable
    assert sureness(Recorder(), 0.0) == NOT_SURE


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50), st.lists(st.floats(1e-6, 1e3), max_size=50))
def test_histograms_add_up(some, others):
    whole, left, right = DurationHistogram(), DurationHistogram(), DurationHistogram()
    for value in some:
        left.record(value)
        whole.record(value)
    for value in others:
        right.record(value)
        whole.record(value)
    left.merge(right)
    merged, expected = left.summary(), whole.summary()
    assert merged.mean_s == pytest.approx(expected.mean_s)
    assert (merged.count, merged.p50_s, merged.p99_s, merged.max_s, merged.min_s) == (
        expected.count, expected.p50_s, expected.p99_s, expected.max_s, expected.min_s,
    )  # fmt: skip
    middle = fmean(some)
    assert abs(whole.longer_than(middle) - sum(value > middle for value in some + others)) <= sum(
        abs(value / middle - 1) < 0.011 for value in some + others
    )
