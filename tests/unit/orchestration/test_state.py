from __future__ import annotations

import itertools

import pytest

from trilith.errors import Bug
from trilith.orchestration.state import TRANSITIONS, ReplicaEvent, ReplicaState, next_state


def test_every_pair_is_in_the_table_or_an_error():
    for state, event in itertools.product(ReplicaState, ReplicaEvent):
        if (state, event) in TRANSITIONS:
            assert next_state(state, event) is TRANSITIONS[state, event]
        else:
            with pytest.raises(Bug, match=str(event)):
                next_state(state, event)


def test_every_state_but_stopped_can_end():
    for state in ReplicaState:
        if state is not ReplicaState.STOPPED:
            assert next_state(state, ReplicaEvent.EXITED) is ReplicaState.STOPPED


def test_nothing_leaves_stopped():
    assert not [state for state, _ in TRANSITIONS if state is ReplicaState.STOPPED]
