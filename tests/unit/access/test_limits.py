"""What a key may still ask for, as time passes."""

from hypothesis import given
from hypothesis import strategies as st

from trilith.orchestration.access.keys import KeyLimits
from trilith.orchestration.access.limits import KeyUse, TokenBucket


@given(
    st.floats(0.1, 1000),
    st.integers(1, 50),
    st.lists(st.floats(0, 10), min_size=1, max_size=60),
)
def test_no_more_pass_than_the_rate_and_the_burst_allow(rate, burst, pauses):
    bucket, now, passed = TokenBucket(rate_per_s=rate, burst=burst, now=0.0), 0.0, 0
    for pause in pauses:
        now += pause
        passed += bucket.take(now) == 0.0
    assert passed <= burst + rate * now + 1e-6


@given(st.floats(0.1, 1000), st.integers(1, 50), st.lists(st.floats(0, 1), max_size=60))
def test_who_waits_for_as_long_as_is_said_passes(rate, burst, pauses):
    bucket, now = TokenBucket(rate_per_s=rate, burst=burst, now=0.0), 0.0
    for pause in pauses:
        now += pause
        wait_s = bucket.take(now)
        if wait_s > 0:
            now += wait_s * (1 + 1e-9) + 1e-9
            assert bucket.take(now) == 0.0


def test_a_pause_fills_no_more_than_the_burst():
    bucket = TokenBucket(rate_per_s=10, burst=3, now=0.0)
    assert [bucket.take(1000.0) == 0.0 for _ in range(5)] == [True, True, True, False, False]


def test_a_clock_that_goes_back_gives_nothing():
    bucket = TokenBucket(rate_per_s=1, burst=1, now=100.0)
    assert bucket.take(100.0) == 0.0
    assert bucket.take(50.0) == 1.0
    assert bucket.take(100.5) == 0.5


def test_limits_that_change_leave_what_is_under_way():
    use = KeyUse(KeyLimits(concurrency=2), now=0.0)
    use.in_flight = 2
    assert use.full
    use.change(KeyLimits(concurrency=3, requests_per_s=1), now=0.0)
    assert not use.full
    assert use.in_flight == 2
    assert [use.refused_for(0.0) == 0.0 for _ in range(2)] == [True, False]
    use.change(KeyLimits(concurrency=3, requests_per_s=1), now=0.0)  # the same: the bucket is not filled anew
    assert use.refused_for(0.0) > 0
    use.change(KeyLimits(), now=0.0)
    assert use.refused_for(0.0) == 0.0
    assert not use.full
