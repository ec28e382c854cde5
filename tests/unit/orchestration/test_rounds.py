"""A router that does its rounds when it is told to misses no deadline, and does not spin."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.orchestration.deadlines import DeadlineWheel
from trilith.orchestration.rounds import Rounds

GRANULARITY_S = 0.02
LOOK_S = 0.5
ROUNDING_S = 1e-6


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.floats(-0.1, 3.0), st.booleans()),
        max_size=15,
    ),
    st.booleans(),
)
def test_rounds_meet_deadlines_and_are_no_more_than_needed(steps, leaving):
    """`steps`: time passes, a call comes with so much time left, and may be answered at once."""
    now = 100.0
    wheel: DeadlineWheel[tuple[int, float]] = DeadlineWheel(GRANULARITY_S)
    rounds = Rounds(granularity_s=GRANULARITY_S, look_s=LOOK_S, now=now)
    looked_at = []

    def live_until(end):
        nonlocal now
        while rounds.next_at <= end:
            now = max(now, rounds.next_at)
            if rounds.begin(now):
                looked_at.append(now)
            assert rounds.next_at == pytest.approx(now + LOOK_S), "whatever goes wrong in the round"
            for _, deadline in wheel.expired(now):
                assert deadline <= now + ROUNDING_S
            rounds.end(now, first_deadline=wheel.next_at(), leaving=leaving)
            assert now < rounds.next_at <= now + LOOK_S + ROUNDING_S
            looks = rounds.next_at == pytest.approx(looked_at[-1] + LOOK_S)
            assert looks or now + GRANULARITY_S <= rounds.next_at + ROUNDING_S, "it spins"
            assert not leaving or rounds.next_at <= now + GRANULARITY_S + ROUNDING_S
        now = end

    for number, (passes_s, left_s, answered) in enumerate(steps):
        live_until(now + passes_s)
        deadline = now + left_s
        wheel.add((number, deadline), deadline)
        if deadline < rounds.covered_from:
            rounds.cover(deadline)
        if answered:
            wheel.discard((number, deadline), deadline)
        for bucket in wheel._buckets.values():
            for _, waiting in bucket:
                assert rounds.next_at <= max(waiting, now) + 2 * GRANULARITY_S + ROUNDING_S
    live_until(now + 3.5)
    assert len(wheel) == 0
    assert all(later - earlier >= LOOK_S - ROUNDING_S for earlier, later in itertools.pairwise(looked_at))
    assert all(later - earlier <= 2 * LOOK_S for earlier, later in itertools.pairwise(looked_at))


def test_a_replica_that_leaves_is_looked_at_soon_and_delays_nothing():
    rounds = Rounds(granularity_s=GRANULARITY_S, look_s=LOOK_S, now=0.0)
    rounds.begin(1.0)
    rounds.end(1.0, first_deadline=None, leaving=False)
    assert rounds.next_at == pytest.approx(1.5)
    rounds.replica_leaves(1.1)
    assert rounds.next_at == pytest.approx(1.12)
    rounds.replica_leaves(1.11)
    assert rounds.next_at == pytest.approx(1.12)
