"""What the connection tells the layer above: the seam on which unary and streaming protocols are built.

Rule: an event is a fact about a stream or the connection, in the order of the wire. Answering is done by calling the
connection; no event expects a return value. They are msgspec structs because one is made for every frame.
"""

from __future__ import annotations

import msgspec

from trilith.wire.http2.errors import ErrorCode, Refusal
from trilith.wire.http2.request_head import RequestHead


class RequestReceived(msgspec.Struct, frozen=True, gc=False):
    """A stream was opened. `end_stream` says that no body follows."""

    stream_id: int
    head: RequestHead
    end_stream: bool


class DataReceived(msgspec.Struct, frozen=True, gc=False):
    """A piece of a body. Call `release` for it, or the peer's window runs out (not needed once `end_stream` came)."""

    stream_id: int
    data: bytes
    end_stream: bool


class TrailersReceived(msgspec.Struct, frozen=True, gc=False):
    """The fields after a body; they end the stream."""

    stream_id: int
    fields: tuple[tuple[bytes, bytes], ...]


class StreamReset(msgspec.Struct, frozen=True, gc=False):
    """The stream is gone: the peer took it back, or broke a rule on it (then we reset it: `refusal` says why)."""

    stream_id: int
    code: int
    refusal: Refusal | None = None


class RequestRefused(msgspec.Struct, frozen=True, gc=False):
    """A stream was not opened: too many are open, or the connection drains. It was answered already."""

    stream_id: int


class PingAcknowledged(msgspec.Struct, frozen=True, gc=False):
    """The peer answered our PING."""

    payload: bytes


class GoAwayReceived(msgspec.Struct, frozen=True, gc=False):
    """The peer will open no more streams."""

    code: int
    reason: bytes


class ConnectionFailed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule of the connection. GOAWAY is in the output; write it and close."""

    code: ErrorCode
    reason: str
    refusal: Refusal


Event = (
    RequestReceived
    | DataReceived
    | TrailersReceived
    | StreamReset
    | RequestRefused
    | PingAcknowledged
    | GoAwayReceived
    | ConnectionFailed
)
