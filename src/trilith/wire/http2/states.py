"""The life of a stream and of a connection, each as one table. A pair that is absent is an error.

From RFC 9113 section 5.1, seen from the server. A stream that was never opened, or is gone, has no object: which of the
two it is follows from its number alone (see `closed.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from trilith.wire.http2.errors import ErrorCode


class StreamState(enum.IntEnum):
    """Where a stream stands."""

    IDLE = 0
    OPEN = 1
    HALF_CLOSED_REMOTE = 2
    HALF_CLOSED_LOCAL = 3
    CLOSED = 4


class StreamInput(enum.IntEnum):
    """What can happen to a stream. `..._END` carries END_STREAM."""

    RECEIVE_HEADERS = 0
    RECEIVE_HEADERS_END = 1
    RECEIVE_DATA = 2
    RECEIVE_DATA_END = 3
    RECEIVE_RESET = 4
    SEND_HEADERS = 5
    SEND_DATA = 6
    SEND_END = 7
    SEND_RESET = 8


_S, _I = StreamState, StreamInput

STREAM_TRANSITIONS: Final[Mapping[tuple[StreamState, StreamInput], StreamState]] = {
    (_S.IDLE, _I.RECEIVE_HEADERS): _S.OPEN,
    (_S.IDLE, _I.RECEIVE_HEADERS_END): _S.HALF_CLOSED_REMOTE,
    (_S.OPEN, _I.RECEIVE_DATA): _S.OPEN,
    (_S.OPEN, _I.RECEIVE_DATA_END): _S.HALF_CLOSED_REMOTE,
    (_S.OPEN, _I.RECEIVE_HEADERS_END): _S.HALF_CLOSED_REMOTE,
    (_S.OPEN, _I.RECEIVE_RESET): _S.CLOSED,
    (_S.OPEN, _I.SEND_HEADERS): _S.OPEN,
    (_S.OPEN, _I.SEND_DATA): _S.OPEN,
    (_S.OPEN, _I.SEND_END): _S.HALF_CLOSED_LOCAL,
    (_S.OPEN, _I.SEND_RESET): _S.CLOSED,
    (_S.HALF_CLOSED_REMOTE, _I.RECEIVE_RESET): _S.CLOSED,
    (_S.HALF_CLOSED_REMOTE, _I.SEND_HEADERS): _S.HALF_CLOSED_REMOTE,
    (_S.HALF_CLOSED_REMOTE, _I.SEND_DATA): _S.HALF_CLOSED_REMOTE,
    (_S.HALF_CLOSED_REMOTE, _I.SEND_END): _S.CLOSED,
    (_S.HALF_CLOSED_REMOTE, _I.SEND_RESET): _S.CLOSED,
    (_S.HALF_CLOSED_LOCAL, _I.RECEIVE_DATA): _S.HALF_CLOSED_LOCAL,
    (_S.HALF_CLOSED_LOCAL, _I.RECEIVE_DATA_END): _S.CLOSED,
    (_S.HALF_CLOSED_LOCAL, _I.RECEIVE_HEADERS_END): _S.CLOSED,
    (_S.HALF_CLOSED_LOCAL, _I.RECEIVE_RESET): _S.CLOSED,
    (_S.HALF_CLOSED_LOCAL, _I.SEND_RESET): _S.CLOSED,
    # The frame that ended the stream may itself be wrong.
    (_S.CLOSED, _I.SEND_RESET): _S.CLOSED,
}

RECEIVE_FAULTS: Final[Mapping[tuple[StreamState, StreamInput], ErrorCode]] = {
    # Trailers must end the stream (RFC 9113 section 8.1).
    (_S.OPEN, _I.RECEIVE_HEADERS): ErrorCode.PROTOCOL_ERROR,
    (_S.HALF_CLOSED_LOCAL, _I.RECEIVE_HEADERS): ErrorCode.PROTOCOL_ERROR,
    (_S.HALF_CLOSED_REMOTE, _I.RECEIVE_HEADERS): ErrorCode.STREAM_CLOSED,
    (_S.HALF_CLOSED_REMOTE, _I.RECEIVE_HEADERS_END): ErrorCode.STREAM_CLOSED,
    (_S.HALF_CLOSED_REMOTE, _I.RECEIVE_DATA): ErrorCode.STREAM_CLOSED,
    (_S.HALF_CLOSED_REMOTE, _I.RECEIVE_DATA_END): ErrorCode.STREAM_CLOSED,
}
"""The code for each thing that a peer may do too late. All of them fault the stream only."""


class ConnectionState(enum.IntEnum):
    """Where a connection stands."""

    AWAIT_PREFACE = 0
    AWAIT_SETTINGS = 1
    OPEN = 2
    DRAINING = 3
    CLOSED = 4


class ConnectionInput(enum.IntEnum):
    """What can happen to a connection."""

    PREFACE = 0
    FIRST_SETTINGS = 1
    LAST_GOAWAY = 2
    FAULT = 3


_C, _J = ConnectionState, ConnectionInput

CONNECTION_TRANSITIONS: Final[Mapping[tuple[ConnectionState, ConnectionInput], ConnectionState]] = {
    (_C.AWAIT_PREFACE, _J.PREFACE): _C.AWAIT_SETTINGS,
    (_C.AWAIT_PREFACE, _J.LAST_GOAWAY): _C.CLOSED,
    (_C.AWAIT_PREFACE, _J.FAULT): _C.CLOSED,
    (_C.AWAIT_SETTINGS, _J.FIRST_SETTINGS): _C.OPEN,
    (_C.AWAIT_SETTINGS, _J.LAST_GOAWAY): _C.CLOSED,
    (_C.AWAIT_SETTINGS, _J.FAULT): _C.CLOSED,
    (_C.OPEN, _J.LAST_GOAWAY): _C.DRAINING,
    (_C.OPEN, _J.FAULT): _C.CLOSED,
    (_C.DRAINING, _J.LAST_GOAWAY): _C.DRAINING,
    (_C.DRAINING, _J.FAULT): _C.CLOSED,
}
