"""What holds an event loop is said, with where it was."""

import asyncio
import logging
import time

import pytest

from trilith.orchestration.engine import loop_watch
from trilith.telemetry import Instruments


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(loop_watch, "_EVERY_S", 0.01)
    monkeypatch.setattr(loop_watch, "_HELD_S", 0.05)
    counted = Instruments()
    monkeypatch.setattr(loop_watch, "instruments", counted)
    return counted


def blocks():
    time.sleep(0.3)


@pytest.mark.parametrize(("in_flight", "said"), [(1, True), (0, False)])
def test_it_is_said_once_it_goes_on(quick, caplog, in_flight, said):
    async def main():
        mine = asyncio.current_task()
        watch = loop_watch.LoopWatch(
            "Misc", lambda: in_flight, lambda task: "Misc.block" if task is mine else "another task"
        )
        watch.start()
        await asyncio.sleep(0.05)
        blocks()
        for _ in range(100):
            if caplog.records or not said:
                break
            await asyncio.sleep(0.01)
        watch.stop()

    with caplog.at_level(logging.WARNING, "trilith.service"):
        asyncio.run(main())
    if not said:
        assert caplog.records == []
        return
    message = caplog.records[0].getMessage()
    assert message.startswith("Misc.block held the event loop for at least 0.")
    assert "time.sleep(0.3)" in message
    assert "in blocks" in message
    [family] = quick.take(again=True)
    assert family.name == "trilith_loop_held_seconds_total"
    assert [series.labels for series in family.series] == [("Misc.block",)]


def test_a_loop_that_runs_and_one_that_is_idle_are_let_be(quick, caplog):
    async def main():
        watch = loop_watch.LoopWatch("Misc", lambda: 1, lambda _: "Misc.waits")
        watch.start()
        await asyncio.sleep(0.2)
        watch.stop()

    asyncio.run(main())
    assert caplog.records == []
