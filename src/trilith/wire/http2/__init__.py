"""HTTP/2 without I/O: frames, header compression, flow control and the life of streams, for a server.

`Http2Connection` takes octets and returns events; it knows neither sockets nor gRPC.
"""

from trilith.wire.http2.connection import Http2Connection
from trilith.wire.http2.errors import ErrorCode, Refusal
from trilith.wire.http2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    GoAwayReceived,
    PingAcknowledged,
    RequestReceived,
    RequestRefused,
    StreamReset,
    TrailersReceived,
)
from trilith.wire.http2.header_encoder import EncodedHeaders
from trilith.wire.http2.request_head import Field, RequestHead
from trilith.wire.http2.settings import Http2Limits
from trilith.wire.http2.states import ConnectionState

__all__ = [
    "ConnectionFailed",
    "ConnectionState",
    "DataReceived",
    "EncodedHeaders",
    "ErrorCode",
    "Event",
    "Field",
    "GoAwayReceived",
    "Http2Connection",
    "Http2Limits",
    "PingAcknowledged",
    "Refusal",
    "RequestHead",
    "RequestReceived",
    "RequestRefused",
    "StreamReset",
    "TrailersReceived",
]
