"""One stream as the connection keeps it: its state, its two windows, and what waits to be sent."""

from __future__ import annotations

from collections import deque

import msgspec

from trilith.wire.http2.header_encoder import EncodedHeaders
from trilith.wire.http2.states import StreamState


class Stream(msgspec.Struct, eq=False):
    """A stream between its first HEADERS and its end.

    Attributes:
        stream_id: its number.
        state: see `states.py`. It changes when octets go out, not when they are queued.
        send_window: body octets that we may still send; negative after the peer made its initial window smaller.
        receive_window: body octets that the peer may still send.
        unreleased: body octets received that the layer above has not released yet.
        body_left: octets still to come by `content-length`, or None when it was not declared.
        pending: body octets to be sent, or None when there never were any.
        trailers: the header list that goes after the body.
        scheduled: it stands in the sender's queue.
        pending_bytes: the octets in `pending`.
        sent_bytes: octets of the body that went out.
        wants_room: somebody waits for `pending_bytes` to fall.
        ends: the last octets of `pending` end the stream.
        reset_at_end: the answer ends the request as well: what the peer still has to say is not wanted.
    """

    stream_id: int
    state: StreamState
    send_window: int
    receive_window: int
    body_left: int | None = None
    unreleased: int = 0
    pending: deque[memoryview] | None = None
    trailers: EncodedHeaders | None = None
    scheduled: bool = False
    pending_bytes: int = 0
    sent_bytes: int = 0
    wants_room: bool = False
    ends: bool = False
    reset_at_end: bool = False
