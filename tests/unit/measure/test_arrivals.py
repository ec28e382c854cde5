import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.errors import InvalidConfig
from trilith.measure.load.arrivals import constant, mean_rate, poisson, read_recording, replay

rates = st.floats(0.01, 1e6)


def first(number, instants):
    return list(itertools.islice(instants, number))


@settings(max_examples=20, deadline=None)
@given(rates, st.integers(1, 200))
def test_constant_arrivals_do_not_drift(rate, number):
    instants = first(number + 1, constant(rate))
    assert instants[0] == 0
    assert instants[-1] == pytest.approx(number / rate, rel=1e-12)


@settings(max_examples=5, deadline=None)
@given(rates, st.integers(0, 1000))
def test_poisson_arrivals_ascend_have_the_rate_and_repeat_with_the_seed(rate, seed):
    instants = first(2000, poisson(rate, random.Random(seed).random))
    assert instants == sorted(instants)
    assert instants == first(2000, poisson(rate, random.Random(seed).random))
    gaps = [later - earlier for earlier, later in itertools.pairwise([0.0, *instants])]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / rate, rel=0.15)  # 2000 draws: the standard error is 2.2 %
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.25)  # exponential: as large as the mean


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=20).map(sorted), st.floats(0.1, 10))
def test_a_recording_comes_again_with_its_own_gaps(times, speed):
    instants = first(2 * len(times), replay(times, speed=speed))
    assert instants == sorted(instants)
    for recorded, replayed in zip(times, instants, strict=False):
        assert replayed == pytest.approx((recorded - times[0]) / speed, abs=1e-9)
    round_s = instants[len(times)] - instants[0]
    assert round_s == pytest.approx(len(times) / mean_rate(times, speed=speed), abs=1e-6)


def test_what_is_no_schedule_is_refused():
    for wrong in (lambda: constant(0), lambda: poisson(-1, random.random), lambda: replay([]), lambda: replay([2, 1])):
        with pytest.raises(ValueError, match="expected"):
            wrong()


def test_recordings_are_read_as_instants_or_as_gaps():
    assert read_recording("# a day\n0.5\n\n0.75, GET /\n0.75\n", "f") == (0.5, 0.75, 0.75)
    assert read_recording("interval_us\n500\n1500\n", "f") == pytest.approx((0, 0.0005, 0.002))


@pytest.mark.parametrize("text", ["", "# nothing", "1\n0.5", "1\nx", "nan", "interval_us\n-5", "interval_us"])
def test_a_wrong_recording_is_refused_with_its_line(text):
    with pytest.raises(InvalidConfig, match=r"f(, line \d)?: expected"):
        read_recording(text, "f")
