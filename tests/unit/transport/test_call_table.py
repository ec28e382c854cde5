"""Ids, slots and the accept board."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.net.transport.accept_board import SLOT_MASK, AcceptBoard
from trilith.net.transport.call_table import CallTable
from trilith.net.transport.calls import LostCall
from trilith.wire.frames import MalformedFrame


def ignore(_):
    pass


def table_with_board() -> tuple[CallTable, AcceptBoard]:
    """A table, and its board as the other side sees it."""
    table = CallTable()
    table.board, descriptor = AcceptBoard.create()
    return table, AcceptBoard.receive(descriptor)


@given(st.lists(st.tuples(st.sampled_from(["add", "begin", "cancel", "take", "accept"]), st.integers(0, 30))))
def test_lost_calls_are_those_not_answered_and_say_truly_whether_they_were_begun(steps):
    table, remote = table_with_board()
    calls: list[int] = []
    alive, begun, cancelled = set(), set(), set()
    for what, which in steps:
        if what == "add":
            calls.append(table.add(ignore))
            alive.add(calls[-1])
        elif calls:
            call_id = calls[which % len(calls)]
            if call_id not in alive:
                assert not table.cancel(call_id)
                table.accept(call_id)
                with pytest.raises(KeyError):
                    table.take(call_id)
            elif what == "begin":
                remote.mark(call_id)
                begun.add(call_id)
            elif what == "accept":
                table.accept(call_id)
                begun.add(call_id)
            elif what == "cancel":
                assert table.cancel(call_id) == (call_id not in cancelled)
                cancelled.add(call_id)
            else:
                assert (table.take(call_id) is None) == (call_id in cancelled)
                alive.discard(call_id)
        table.check_integrity()
        assert len(table) == len(alive)
    assert len({call_id & SLOT_MASK for call_id in alive}) == len(alive)
    assert len(set(calls)) == len(calls)
    lost = [call for call, _ in table.empty()]
    assert lost == [LostCall(call_id, call_id in begun) for call_id in calls if call_id in alive - cancelled]
    table.check_integrity()
    assert not table


def test_a_mark_of_an_earlier_call_in_the_same_slot_is_not_misread():
    table, remote = table_with_board()
    first = table.add(ignore)
    remote.mark(first)
    table.take(first)
    second = table.add(ignore)
    assert first & SLOT_MASK == second & SLOT_MASK
    assert table.empty()[0][0] == LostCall(second, False)


def test_what_is_no_board_is_refused():
    descriptor = os.memfd_create("short")
    with pytest.raises(MalformedFrame, match="bytes"):
        AcceptBoard.receive(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_without_memfd_there_is_no_board(monkeypatch):
    def refuse(*_):
        raise OSError(38, "not here")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert AcceptBoard.create() is None
