"""Circles that hold much do not wait until there are many of them."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core import collector
from trilith.core.collector import Growth, own_bytes, watch_growth

MIB = 1 << 20


def test_growth_is_due_after_64_mib():
    growth = Growth(100 * MIB)
    assert not growth.due(163 * MIB)
    assert growth.due(164 * MIB)


def test_a_large_process_may_grow_by_a_quarter():
    growth = Growth(1000 * MIB)
    assert not growth.due(1249 * MIB)
    assert growth.due(1250 * MIB)


def test_what_a_collection_leaves_is_wanted():
    growth = Growth(0)
    assert growth.due(400 * MIB)
    growth.collected(400 * MIB)
    assert not growth.due(463 * MIB)
    assert growth.due(500 * MIB)


def test_growth_counts_from_where_it_was_least():
    growth = Growth(400 * MIB)
    assert not growth.due(10 * MIB)
    assert growth.due(74 * MIB)


@given(st.lists(st.integers(0, 1 << 40), max_size=50))
def test_nothing_grows_by_more_than_a_quarter_unseen(sizes):
    growth, base = Growth(0), 0
    for size in sizes:
        base = min(base, size)
        assert growth.due(size) == (size - base >= max(64 * MIB, base // 4))
        if growth.due(size):
            growth.collected(size)
            base = size


class Circle:
    def __init__(self, octets):
        self.octets = octets
        self.me = self


def test_one_circle_with_much_memory_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collector, "_LOOK_EVERY_S", 0.01)

    async def main():
        watch_growth(asyncio.get_running_loop())
        circle = Circle(b"x" * (200 * MIB))
        freed = asyncio.Event()
        weakref.finalize(circle, freed.set)
        assert own_bytes() > 200 * MIB
        del circle
        await asyncio.wait_for(freed.wait(), 20)

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()
