import random
from statistics import mean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.measure import RateSearch


def search_for(limit, first, precision=0.05, lie=frozenset()):
    search = RateSearch(first=first, precision=precision)
    trials = 0
    while (rate := search.next_rate()) is not None:
        search.tell(met=rate <= limit and trials not in lie)
        trials += 1
        assert trials < 200
    return search.found


@settings(max_examples=25, deadline=None)
@given(st.floats(0.2, 9e5), st.floats(0.2, 9e5), st.floats(0.01, 1.0))
def test_the_limit_is_found_within_the_precision(limit, first, precision):
    found = search_for(limit, first, precision)
    assert found.complete
    assert found.rate_per_s <= limit <= found.above_per_s
    assert found.above_per_s <= found.rate_per_s * (1 + precision) * (1 + 1e-9)


@settings(max_examples=10, deadline=None)
@given(st.floats(1, 1e4), st.floats(1, 1e4), st.sets(st.integers(0, 30), max_size=1))
def test_one_hiccup_does_not_decide(limit, first, lie):
    found = search_for(limit, first, lie=lie)
    assert found.rate_per_s <= limit <= found.above_per_s


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=100, max_size=100))
def test_it_ends_whatever_comes(outcomes):
    search = RateSearch(first=10)
    for met, clearly in outcomes:
        if search.next_rate() is None:
            break
        search.tell(met=met, clearly=clearly)
    assert search.next_rate() is None
    assert search.found.complete
    with pytest.raises(ValueError, match="has ended"):
        search.tell(met=True)


def test_chance_makes_the_answer_neither_too_high_nor_too_low():
    found = []
    for seed in range(200):
        draw, search = random.Random(seed), RateSearch(first=500)
        while (rate := search.next_rate()) is not None:
            search.tell(met=draw.random() < 1 / (1 + (rate / 1000) ** 12))  # at 1000 it is kept every second time
        found.append(search.found.rate_per_s)
    assert 960 <= median(found) <= 1030
    assert 0.35 <= mean(rate < 1000 for rate in found) <= 0.65


def test_an_answer_that_was_luck_is_given_up():
    search = RateSearch(first=100, precision=0.5)
    lucky = None
    while (rate := search.next_rate()) is not None:
        met = rate <= 100 or (lucky is None and rate > 100)
        lucky = rate if met and rate > 100 else lucky
        search.tell(met=met)
    assert lucky == 200
    assert search.found.rate_per_s <= 100 < search.found.above_per_s


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(0, 1), st.floats(0, 1))
def test_it_ends_within_a_hundred_trials_with_a_bracket(draw, kept, clear):
    search = RateSearch(first=10)
    while search.next_rate() is not None:
        search.tell(met=draw.random() < kept, clearly=draw.random() < clear)
        assert search.found.trials <= 100
    found = search.found
    if found.rate_per_s is not None and found.above_per_s is not None:
        assert found.rate_per_s < found.above_per_s <= found.rate_per_s * 1.05 * (1 + 1e-9)


def test_nothing_meets_it_or_everything_does():
    never, always = search_for(0, 10), search_for(1e9, 10)
    assert never.rate_per_s is None
    assert never.above_per_s == pytest.approx(0.1)
    assert always.rate_per_s == 1e6
    assert always.above_per_s is None


def test_wrong_bounds_are_refused():
    for bounds in ({"first": 0}, {"first": 2, "highest": 1}, {"first": 1, "precision": 0}):
        with pytest.raises(ValueError, match="expected"):
            RateSearch(**bounds)
