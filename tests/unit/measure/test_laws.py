"""The laws hold for systems that obey them by construction."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.measure import laws

_LOADS = (1, 2, 4, 8, 16, 32)
_RATE = st.floats(0.5, 5000)


@settings(max_examples=25, deadline=None)
@given(rate=_RATE, contention=st.floats(0, 0.9), coherency=st.floats(0, 0.05))
def test_the_fit_finds_the_law_that_made_the_points(rate, contention, coherency):
    made = laws.Scalability(rate_per_s=rate, contention=contention, coherency=coherency, error=0.0)
    fitted = laws.fit_scalability((load, made.throughput_per_s(load)) for load in _LOADS)
    assert fitted.error < 1e-4
    for load in (*_LOADS, 3, 12):
        assert fitted.throughput_per_s(load) == pytest.approx(made.throughput_per_s(load), rel=1e-2)


@settings(max_examples=25, deadline=None)
@given(points=st.lists(st.tuples(st.sampled_from(_LOADS), _RATE), max_size=8))
def test_a_fit_of_anything_has_no_negative_part(points):
    fitted = laws.fit_scalability(points)
    if len({load for load, _ in points}) < 2:
        assert fitted is None
    elif fitted is not None:
        assert fitted.rate_per_s > 0
        assert fitted.contention >= 0
        assert fitted.coherency >= 0
        assert fitted.ceiling_per_s >= fitted.throughput_per_s(1) * (1 - 1e-9)


def test_where_throughput_is_highest():
    falls = laws.Scalability(rate_per_s=10, contention=0.0, coherency=0.01, error=0.0)
    assert falls.best_load == pytest.approx(10)
    assert falls.ceiling_per_s > max(falls.throughput_per_s(9), falls.throughput_per_s(11))
    flat = laws.Scalability(rate_per_s=10, contention=0.5, coherency=0.0, error=0.0)
    assert flat.best_load == math.inf
    assert flat.ceiling_per_s == pytest.approx(20)


@settings(max_examples=25, deadline=None)
@given(servers=st.integers(1, 16), service_s=st.floats(1e-5, 2), load=st.integers(1, 64))
def test_bounds_little_and_utilisation_agree(servers, service_s, load):
    throughput = laws.throughput_bound(load, service_s, service_s, servers)
    assert throughput == pytest.approx(min(load, servers) / service_s)
    assert laws.utilisation(throughput, service_s, servers) == pytest.approx(min(1.0, load / servers))
    assert laws.in_system(throughput, service_s) == pytest.approx(min(load, servers))
    assert laws.knee(service_s, service_s, servers) == pytest.approx(servers)
    busy_s = throughput * service_s * 3.0
    assert laws.service_demand(busy_s, 3.0, throughput) == pytest.approx(service_s)


def test_nothing_that_takes_time_bounds_nothing():
    assert laws.throughput_bound(8, 0.0, 0.0) == math.inf
    assert laws.knee(1.0, 0.0) == math.inf
    assert laws.service_demand(1.0, 1.0, 0.0) == 0.0
    with pytest.raises(ValueError, match="at least one server, got 0"):
        laws.utilisation(1.0, 1.0, 0)


@settings(max_examples=25, deadline=None)
@given(fixed_s=st.floats(0, 1), each_s=st.floats(1e-6, 1))
def test_the_cost_of_batches_is_found(fixed_s, each_s):
    made = laws.BatchCost(fixed_s=fixed_s, each_s=each_s)
    found = laws.fit_batch_cost((size, made.seconds(size), 5) for size in (1, 2, 4, 8))
    assert found.seconds(16) == pytest.approx(made.seconds(16), rel=1e-3)
    assert found.gain(2, 8) >= 1 - 1e-6


def test_costs_that_fall_with_the_size_are_all_fixed():
    found = laws.fit_batch_cost([(1, 0.02, 1), (2, 0.018, 1), (4, 0.016, 1)])
    assert found.each_s == 0.0
    assert laws.fit_batch_cost([(1, 0.02, 9), (1, 0.03, 9)]) is None
    grows = laws.fit_batch_cost([(1, 0.01, 1), (4, 0.16, 1)])
    assert grows.fixed_s == 0.0
