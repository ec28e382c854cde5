"""The pause before an under-full batch: simulated callers, who wait for their answers or do not."""

import heapq
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.runtime.schedule.linger import SHARE, Linger

MOST = 32


class Never(Linger):
    """For comparison: what waits goes at once."""

    def until(self, waiting, now):
        return now


def simulate(pause, seconds_of, *, callers=0, back_s=lambda: 0.0008, rate=0.0, until_s=5.0, seed=1):
    """One place, one queue. Gives calls answered a second, and the mean seconds that one took.

    `callers` ask again `back_s()` after their answers; others come at `rate` a second and do not.
    """
    dice = random.Random(seed)
    events = []  # (instant, number, kind, what)
    numbers = iter(range(10**9))

    def at(instant, kind, what=None):
        heapq.heappush(events, (instant, next(numbers), kind, what))

    for _ in range(callers):
        at(dice.random() * 0.01, "call", True)
    if rate:
        at(dice.expovariate(rate), "call", False)
    queue, busy, answered, waited_s = [], False, 0, 0.0

    def go(now):
        nonlocal busy
        if busy or not queue:
            return
        held_until = pause.until(len(queue), now)
        if len(queue) < MOST and held_until > now:
            at(held_until, "look")
            return
        batch, queue[:] = queue[:MOST], queue[MOST:]
        busy = True
        at(now + seconds_of(len(batch)), "ended", (batch, now))

    while events:
        now, _, kind, what = heapq.heappop(events)
        if now > until_s:
            break
        if kind == "call":
            pause.arrived(now)
            queue.append((now, what))
            if not what:
                at(now + dice.expovariate(rate), "call", False)
        elif kind == "ended":
            batch, begun_at = what
            busy = False
            pause.ended(len(batch), now - begun_at, now)
            for came_at, returns in batch:
                answered += 1
                waited_s += now - came_at
                if returns:
                    at(now + back_s(), "call", True)
        go(now)
    return answered / until_s, waited_s / max(1, answered)


def flat(_):
    return 0.005


def proportional(size):
    return 0.0005 * size


def some(size):
    return 0.003 + 0.0001 * size


@pytest.mark.parametrize("callers", [2, 3, 8, 32])
def test_callers_who_ask_again_share_a_batch(callers):
    rate, mean_s = simulate(Linger(MOST), flat, callers=callers)
    without, mean_without_s = simulate(Never(MOST), flat, callers=callers)
    assert rate > 0.95 * callers / (0.005 + 0.0008)  # as if all of them were one
    assert rate > 1.3 * without
    assert mean_s < mean_without_s


def test_callers_who_come_back_at_different_times():
    dice = random.Random(2)
    rate, _ = simulate(Linger(MOST), flat, callers=32, back_s=lambda: dice.uniform(0.0003, 0.0013))
    without, _ = simulate(Never(MOST), flat, callers=32, back_s=lambda: dice.uniform(0.0003, 0.0013))
    assert rate > 1.5 * without


def test_callers_who_are_answered_one_after_the_other_are_all_waited_for():
    """As one thread answers them, and reads what they ask next: the last one is back when the pause is nearly over."""
    turn = itertools.count()
    rate, _ = simulate(Linger(MOST), flat, callers=MOST, back_s=lambda: 0.0006 + 0.00004 * (next(turn) % MOST))
    assert rate > 0.97 * MOST / (0.005 + 0.0006 + 0.00004 * MOST)


@pytest.mark.parametrize("cost", [flat, some, proportional])
@pytest.mark.parametrize("callers", [1, 2, 7, 32, 80])
def test_it_never_costs_much(cost, callers):
    rate, _ = simulate(Linger(MOST), cost, callers=callers)
    without, _ = simulate(Never(MOST), cost, callers=callers)
    assert rate > 0.97 * without


@pytest.mark.parametrize("load", [0.2, 0.6, 0.9])
def test_those_who_do_not_come_back_hardly_wait(load):
    rate = load * MOST / flat(MOST)
    _, mean_s = simulate(Linger(MOST), flat, rate=rate)
    _, mean_without_s = simulate(Never(MOST), flat, rate=rate)
    assert mean_s < 1.06 * mean_without_s


@pytest.mark.parametrize("think_s", [0.01, 0.05])
def test_callers_who_think_first_hardly_wait(think_s):
    dice = random.Random(3)
    rate, mean_s = simulate(Linger(MOST), flat, callers=6, back_s=lambda: dice.expovariate(1 / think_s))
    without, mean_without_s = simulate(Never(MOST), flat, callers=6, back_s=lambda: dice.expovariate(1 / think_s))
    assert rate > 0.95 * without
    assert mean_s < 1.1 * mean_without_s


def test_a_lone_caller_never_waits():
    pause, now = Linger(MOST), 0.0
    for _ in range(20):
        pause.arrived(now)
        assert pause.until(1, now) <= now
        now += 0.01
        pause.ended(1, 0.01, now)
        now += 0.001


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["arrived", "ended", "until"]),
        st.integers(1, MOST),
        st.floats(0.0, 1.0, allow_subnormal=False),
    ),
    max_size=60,
)


@given(EVENTS)
def test_nothing_is_held_for_longer_than_the_share(events):
    pause, now, latest = Linger(MOST), 0.0, 0.0
    for kind, size, seconds in events:
        now += seconds / 7
        if kind == "arrived":
            pause.arrived(now)
        elif kind == "ended":
            pause.ended(size, seconds, now)
            latest = now + SHARE * seconds
        else:
            held = pause.until(size, now)
            assert held <= max(now, latest)
            if size == MOST:
                assert held <= now
