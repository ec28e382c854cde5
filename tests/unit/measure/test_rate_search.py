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
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=60, max_size=60))
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
