"""Which calls a client sends again, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import (
    CallerError,
    CapacityError,
    DeadlineExceeded,
    Draining,
    InvalidConfig,
    InvalidInput,
    NoReadyReplica,
    QueueFull,
    ReplicaLost,
    ServiceError,
)
from trilith.service.client.patience import Patience
from trilith.service.client.retries import RetryPolicy, Tries, checked_retries, not_begun

ONCE = RetryPolicy(retries=3, idempotent=False)
TWICE = RetryPolicy(retries=3, idempotent=True)
NEVER = (InvalidInput("x"), ServiceError("x"), DeadlineExceeded("x"), CallerError("x"))
CHANCES = st.floats(0, 1)
ERRORS = st.sampled_from([*NEVER, QueueFull("x"), ReplicaLost("x"), CapacityError("x"), NoReadyReplica("x")])


@pytest.mark.parametrize("kind", [QueueFull, NoReadyReplica, Draining, ReplicaLost, CapacityError])
def test_what_is_sent_again(kind):
    assert ONCE.wait_s(kind("x"), 1, left_s=None, chance=0.0) is None
    assert ONCE.wait_s(not_begun(kind("x")), 1, left_s=None, chance=0.0) == pytest.approx(0.05)
    assert TWICE.wait_s(kind("x"), 1, left_s=None, chance=1.0) == pytest.approx(0.1)


@pytest.mark.parametrize("error", NEVER)
def test_what_never_is(error):
    assert TWICE.wait_s(error, 1, left_s=None, chance=0.0) is None


def test_off():
    assert RetryPolicy(retries=0, idempotent=True).wait_s(not_begun(QueueFull("x")), 1, left_s=9, chance=0) is None


@given(ERRORS, st.booleans(), st.booleans(), st.integers(1, 9), st.none() | st.floats(0, 100), CHANCES)
def test_waits_are_bounded(error, idempotent, begun, sent, left_s, chance):
    error = type(error)("x")
    policy = RetryPolicy(retries=5, idempotent=idempotent)
    wait_s = policy.wait_s(error if begun else not_begun(error), sent, left_s=left_s, chance=chance)
    if wait_s is not None:
        assert sent <= 5
        assert 0 < wait_s <= 2
        assert left_s is None or wait_s < left_s
        assert not begun or idempotent


@given(st.floats(0.001, 100), CHANCES)
def test_retry_after_is_waited_out_when_it_is_not_too_long(asked_s, chance):
    wait_s = ONCE.wait_s(not_begun(QueueFull("x", retry_after_s=asked_s)), 1, left_s=None, chance=chance)
    if asked_s > 30:
        assert wait_s is None
    else:
        assert asked_s <= wait_s <= max(asked_s, 0.05) + 0.05


@given(st.lists(st.tuples(st.floats(0, 3), CHANCES), max_size=10), st.floats(0.05, 5))
def test_all_tries_have_the_time_of_one(steps, limit_s):
    now = 100.0
    tries = Tries(ONCE, Patience(asked_s=limit_s, method_s=60.0), now=now)
    sent = 0
    for took_s, chance in steps:
        patience = tries.patience(now)
        sent += 1
        assert patience.asked_s == limit_s if sent == 1 else patience.asked_s <= limit_s
        now += min(took_s, patience.asked_s)
        error = not_begun(QueueFull("full"))
        wait_s = ONCE.wait_s(error, sent, left_s=100.0 + limit_s - now, chance=chance)
        if wait_s is None:
            with pytest.raises(QueueFull, match="full"):
                tries.wait_s(error, now=now, chance=chance)
            break
        assert tries.wait_s(error, now=now, chance=chance) == pytest.approx(wait_s)
        now += wait_s
        assert now < 100.0 + limit_s
    assert sent <= 4


def test_without_a_limit_each_try_has_the_methods_own():
    tries = Tries(ONCE, Patience(asked_s=None, method_s=60.0), now=0.0)
    assert tries.patience(0.0).asked_s is None
    assert tries.wait_s(not_begun(QueueFull("x")), now=1.0, chance=0.0) > 0
    assert tries.patience(1.0).asked_s is None


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "3", 101, None])
def test_a_number_that_is_none(wrong):
    with pytest.raises(InvalidConfig, match=r"retries: expected a whole number from 0 \(never\)"):
        checked_retries(wrong)
