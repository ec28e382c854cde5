"""Flow control: what is sent is within what was granted, whatever is taken when, and a stream never stands still."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import Bug, InvalidConfig
from trilith.wire.frames import MalformedFrame
from trilith.wire.windows import ReceiveWindow, SendWindow, Window

windows = st.builds(Window, items=st.integers(1, 9), size_bytes=st.integers(1, 100))


@given(windows, st.lists(st.integers(0, 150), max_size=60), st.randoms(use_true_random=False))
def test_two_sides_agree_and_memory_is_bounded(window, sizes, numbers):
    sending, receiving = SendWindow(window.items, window.size_bytes), ReceiveWindow(window)
    waiting, under_way, held, grants = list(sizes), [], [], []
    while waiting or under_way or held:
        steps = []
        if waiting and sending.open:
            steps.append("send")
        if under_way:
            steps.append("arrive")
        if held:
            steps.append("take")
        if grants:
            steps.append("grant")
        assert steps, "the stream stands still"
        step = numbers.choice(steps)
        if step == "send":
            sending.spend(waiting[0])
            under_way.append(waiting.pop(0))
        elif step == "arrive":
            receiving.arrived(under_way[0])
            held.append(under_way.pop(0))
        elif step == "take":
            grant = receiving.took(held.pop(0))
            if grant is not None:
                grants.append(grant)
        else:
            sending.grant(*grants.pop(0))
        assert receiving.held_items == len(held) <= window.items
        assert receiving.held_bytes == sum(held)
        largest = max(sizes, default=0)
        assert sum(under_way) + sum(held) <= window.size_bytes + largest
        assert len(under_way) + len(held) <= window.items


@given(windows, st.lists(st.integers(0, 150), min_size=1, max_size=30))
def test_what_was_not_granted_is_a_breach(window, sizes):
    receiving = ReceiveWindow(window)
    sending = SendWindow(window.items, window.size_bytes)
    for size in sizes:
        if sending.open:
            sending.spend(size)
            receiving.arrived(size)
        else:
            with pytest.raises(MalformedFrame, match="not granted"):
                receiving.arrived(size)
            with pytest.raises(Bug, match="closed window"):
                sending.spend(size)


@pytest.mark.parametrize("wrong", [(1, math.nan), (1, math.inf), (1, -1.0), (0, 0.5), (1, 2.0**60)])
def test_grants_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(MalformedFrame, match="granted"):
        SendWindow().grant(*wrong)


def test_a_grant_tells_when_it_opens_the_window():
    window = SendWindow()
    assert not window.grant(1, 0.0)
    assert window.grant(0, 10.0)
    assert not window.grant(1, 10.0)


def test_an_item_that_nobody_holds_cannot_be_taken():
    with pytest.raises(Bug, match="was taken"):
        ReceiveWindow(Window()).took(1)


@pytest.mark.parametrize("wrong", [{"items": 0}, {"size_bytes": 0}, {"items": 1 << 40}])
def test_a_window_has_room(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        Window(**wrong)
