"""The tables are whole: everything that a peer can do in a state leads to a state or to a code."""

import itertools

from trilith.wire.http2.states import (
    CONNECTION_TRANSITIONS,
    RECEIVE_FAULTS,
    STREAM_TRANSITIONS,
    ConnectionInput,
    ConnectionState,
    StreamInput,
    StreamState,
)

RECEIVED = [what for what in StreamInput if what.name.startswith("RECEIVE")]
SENT = [what for what in StreamInput if what.name.startswith("SEND")]


def test_every_input_of_a_live_stream_is_a_transition_or_a_fault():
    live = [StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL, StreamState.HALF_CLOSED_REMOTE]
    for pair in itertools.product(live, RECEIVED):
        assert (pair in STREAM_TRANSITIONS) != (pair in RECEIVE_FAULTS), pair


def test_a_side_that_ended_never_sends_again():
    for (state, what), after in STREAM_TRANSITIONS.items():
        if state is StreamState.HALF_CLOSED_LOCAL and what in SENT:
            assert what is StreamInput.SEND_RESET
        if state is StreamState.HALF_CLOSED_REMOTE and what in RECEIVED:
            assert what is StreamInput.RECEIVE_RESET
        if what.name.endswith("RESET"):
            assert after is StreamState.CLOSED


def test_a_fault_closes_every_connection():
    for state in ConnectionState:
        if state is not ConnectionState.CLOSED:
            assert CONNECTION_TRANSITIONS[state, ConnectionInput.FAULT] is ConnectionState.CLOSED
