"""Which way a timeline goes, and how long the long ones are kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.timeline import Timeline
from trilith.errors import NotFound
from trilith.telemetry import TIMELINES_PATH, TimelineShelf


def timeline_of(children, mark="infer"):
    timeline = Timeline("gateway", 3)
    for number in range(children):
        timeline.child(f"model {number}", 1).mark(mark, 1.5)
    return timeline


@given(st.integers(0, 600))
def test_every_timeline_reaches_its_client_and_no_header_is_too_long_for_one(children):
    shelf, timeline = TimelineShelf(), timeline_of(children)
    name, value = shelf.header(timeline)
    assert len(name) + len(value) <= 8192
    if name == b"trilith-timeline":
        found = value
    else:
        assert name == b"trilith-timeline-at"
        found = shelf.find(value.decode())
        assert len(found) > 8000
    assert json.loads(found) == timeline.to_builtins()


def test_only_the_last_ones_are_kept():
    shelf = TimelineShelf()
    places = [shelf.header(timeline_of(400))[1].decode() for _ in range(65)]
    assert len(set(places)) == 65
    with pytest.raises(NotFound, match="the last 64 long ones are kept"):
        shelf.find(places[0])
    for place in places[1:]:
        assert place.startswith(TIMELINES_PATH)
        assert shelf.find(place)
