"""Counting the bytes of a body."""

from hypothesis import given
from hypothesis import strategies as st

from trilith.wire.http1 import InboundBody

STEPS = st.lists(st.one_of(st.binary(min_size=1, max_size=9), st.sampled_from(["take", "whole"])), max_size=30)


@given(STEPS, st.integers(1, 20))
def test_nothing_is_lost_and_the_count_is_right(steps: list[bytes | str], allowance: int) -> None:
    body = InboundBody(allowance)
    sent = taken = b""
    for step in steps:
        if step == "take":
            taken += body.take()
        elif step == "whole":
            assert taken + body.whole() == sent
        else:
            assert isinstance(step, bytes)
            body.add(step)
            sent += step
        assert body.received == len(sent)
        assert body.buffered == len(sent) - len(taken)
        assert body.full == (body.buffered > allowance)
    assert taken + body.take() == sent
    assert not body.full


def test_a_complete_body_is_never_full() -> None:
    body = InboundBody(1)
    body.add(b"abc")
    assert body.full
    body.complete = True
    assert not body.full


def test_whole_does_not_copy_twice() -> None:
    body = InboundBody(1)
    body.add(b"abc")
    assert body.whole() is body.whole()
    body.add(b"def")
    assert body.whole() is body.whole()


def test_discarding() -> None:
    body = InboundBody(1)
    body.add(b"abc")
    body.discard()
    body.add(b"def")
    assert body.received == 6
    assert body.buffered == 0
    assert body.take() == b""
    assert not body.full
