"""The states of a model version."""

from __future__ import annotations

import itertools

import pytest

from trilith.errors import Bug
from trilith.runtime import ModelSpec
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import TRANSITIONS, ModelEvent, ModelState, next_state


def test_every_pair_is_in_the_table_or_an_error():
    for state, event in itertools.product(ModelState, ModelEvent):
        if (state, event) in TRANSITIONS:
            assert next_state(state, event) is TRANSITIONS[state, event]
        else:
            with pytest.raises(Bug, match=f"{state} cannot see the event {event}"):
                next_state(state, event)


def test_whatever_its_state_it_can_be_unloaded_and_stopped():
    for state in ModelState:
        assert next_state(next_state(state, ModelEvent.RETIRED), ModelEvent.UNLOADED) is ModelState.UNAVAILABLE
        assert next_state(state, ModelEvent.STOPPED) is ModelState.UNAVAILABLE


def test_a_failure_whose_text_looks_like_another_reason_is_a_failure():
    handle = ModelHandle(ModelSpec(name="m"), "1", [])
    handle.became(ModelEvent.FAILED, "unloaded")
    assert not handle.unloaded
    assert (handle.reason, handle.public_reason) == ("unloaded", "unloaded")
    handle.became(ModelEvent.RETIRED)
    handle.became(ModelEvent.UNLOADED)
    assert handle.unloaded
    assert handle.reason == handle.public_reason == "unloaded"
    with pytest.raises(Bug):
        handle.became(ModelEvent.LOADED)
    assert handle.unloaded
