"""Who gives way, for any places and any that wait."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.core.fair_share import SPARED_S, HeldPlace, giving_way, holder_of
from trilith.core.identity import Identity

NOW = 100.0
HOLDERS = st.sampled_from("abcd")


@st.composite
def crowds(draw):
    shapes = draw(st.lists(st.tuples(HOLDERS, st.floats(80, NOW), st.integers(0, 50), st.booleans()), max_size=14))
    return [
        HeldPlace(place=index, holder=holder, since=since, progress=progress, waits_for_holder=waits)
        for index, (holder, since, progress, waits) in enumerate(shapes)
    ]


@settings(max_examples=50)
@given(places=crowds(), waiting=st.lists(HOLDERS, max_size=6))
def test_rules(places, waiting):
    ended = giving_way(places, waiting, NOW)
    assert len(set(ended)) == len(ended) <= len(waiting)
    before = Counter(place.holder for place in places)
    taken = Counter(places[index].holder for index in ended)
    # The share is the smaller, the more holders there are.
    least = max(1, len(places) // max(1, len({*before, *waiting})))
    for index in ended:
        place = places[index]
        assert place.waits_for_holder
        assert NOW - place.since >= SPARED_S
        assert any(holder != place.holder for holder in waiting)
    for holder, count in taken.items():
        assert before[holder] - count >= least
        same = [place for place in places if place.holder == holder and place.waits_for_holder]
        loose = sorted(place.rate(NOW) for place in same if NOW - place.since >= SPARED_S)
        gone = sorted(places[index].rate(NOW) for index in ended if places[index].holder == holder)
        assert gone == loose[:count]  # those with the least progress


@settings(max_examples=20)
@given(count=st.integers(2, 40), waiting=st.integers(1, 40))
def test_one_that_holds_all_keeps_its_share(count, waiting):
    places = [
        HeldPlace(place=index, holder="a", since=0.0, progress=index, waits_for_holder=True) for index in range(count)
    ]
    ended = giving_way(places, ["b"] * waiting, NOW)
    assert ended == list(range(min(waiting, count // 2)))
    assert giving_way(places, ["a"] * waiting, NOW) == []


@pytest.mark.parametrize(
    ("client", "identity", "holder"),
    [
        ("10.0.0.1:80", None, "10.0.0.1"),
        ("[::1]:80", None, "[::1]"),
        ("", None, ""),
        ("10.0.0.1:80", Identity(name="ann", kind="key"), "key ann"),
    ],
)
def test_holders(client, identity, holder):
    assert holder_of(client, identity) == holder
