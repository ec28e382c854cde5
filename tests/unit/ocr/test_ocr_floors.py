from __future__ import annotations

import pytest
from floors import parts
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.timeline import ANSWERED, BATCHED, INFER, QUEUED, RECEIVED, SENT, STARTED, Timeline


def timeline(name: str, floor: int, **stamps: float) -> Timeline:
    made = Timeline(name, floor)
    for stage, instant in stamps.items():
        made.mark(stage, instant)
    return made


def page(calls: list[tuple[float, float, float]]) -> Timeline:
    """A gateway call, a service in it, and in that model calls (queued, started, finished) side by side."""
    gateway = timeline("gateway", 3, **{RECEIVED: 0.0, SENT: 1.0, ANSWERED: 20.0})
    service = timeline("Ocr.read", 2, **{STARTED: 2.0, INFER: 19.0})
    gateway.adopt(service)
    for queued, started, finished in calls:
        service.adopt(timeline("model", 1, **{QUEUED: queued, BATCHED: started, INFER: finished}))
    return gateway


def test_each_instant_is_counted_once_for_the_lowest_floor_that_computes():
    found = {(part.floor, part.name): part for part in parts(page([(3, 4, 8), (3, 8, 10)]))}
    seconds = {key: part.seconds for key, part in found.items()}
    assert seconds == pytest.approx(
        {
            (1, "model"): 6.0,
            (1, "model, waiting"): 1.0,
            (2, "Ocr.read"): 1.0 + 9.0,
            (3, "gateway"): 1.0 + 1.0,
            (3, "gateway, waiting"): 1.0,
        }
    )
    assert found[1, "model"].calls == 2


@given(st.lists(st.tuples(st.floats(2, 19), st.floats(2, 19), st.floats(2, 19)).map(sorted), max_size=8))
def test_the_parts_add_up_to_the_request(calls: list[list[float]]):
    request = page([tuple(call) for call in calls])
    found = parts(request)
    assert sum(part.seconds for part in found) == pytest.approx(request.duration())
    assert [part.floor for part in found] == sorted(part.floor for part in found)


def test_a_timeline_without_stamps_has_no_parts():
    assert parts(Timeline("empty", 3)) == []
