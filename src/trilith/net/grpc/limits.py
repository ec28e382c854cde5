"""The bounds of a gRPC server."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.wire.http2 import Http2Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcLimits:
    """What clients may ask of one server. Every wait and every buffer has a bound here.

    Attributes:
        max_message_bytes: one request message; over it the call gets RESOURCE_EXHAUSTED before its body is read.
        max_response_bytes: one message of ours; over it the call gets RESOURCE_EXHAUSTED.
        max_metadata_bytes: the header list of one call, as HTTP/2 counts it.
        max_concurrent_streams: calls in flight on one connection.
        max_connections: a connection over it is told to go away.
        max_buffered_bytes: messages that come, or whose calls have not ended, and answers that are not sent, of all
            connections together; for a server that shares no `HeldBytes` with others.
        stream_window_bytes, connection_window_bytes: how far a client may send ahead of us.
        handshake_timeout_s: until the client's preface and SETTINGS.
        receive_timeout_s: without progress of a request that has begun.
        write_timeout_s: with output that the client does not read.
        idle_timeout_s: without a call, until the connection is drained and closed.
        keepalive_interval_s: of silence, until we PING the client.
        keepalive_timeout_s: for the answer to it, until the connection is cut.
        max_connection_age_s: give or take a tenth, until a connection is drained, so that clients spread anew; None
            for no limit.
        max_connection_age_grace_s: after that, until the calls that are left are ended.
        min_ping_interval_s, max_ping_strikes, control_burst, control_per_s: see `Http2Limits`.
    """

    max_message_bytes: int = 64 << 20
    max_response_bytes: int = (1 << 32) - 1
    max_metadata_bytes: int = 64 << 10
    max_concurrent_streams: int = 1000
    max_connections: int = 1024
    max_buffered_bytes: int = 1 << 30
    stream_window_bytes: int = 4 << 20
    connection_window_bytes: int = 16 << 20
    handshake_timeout_s: float = 10.0
    receive_timeout_s: float = 30.0
    write_timeout_s: float = 30.0
    idle_timeout_s: float = 600.0
    keepalive_interval_s: float = 60.0
    keepalive_timeout_s: float = 20.0
    max_connection_age_s: float | None = None
    max_connection_age_grace_s: float = 30.0
    min_ping_interval_s: float = 10.0
    max_ping_strikes: int = 20
    control_burst: int = 4000
    control_per_s: float = 1000.0

    def http2(self) -> Http2Limits:
        """The part that the HTTP/2 layer keeps."""
        return Http2Limits(
            max_concurrent_streams=self.max_concurrent_streams,
            stream_window_bytes=self.stream_window_bytes,
            connection_window_bytes=self.connection_window_bytes,
            max_header_list_bytes=self.max_metadata_bytes,
            min_ping_interval_s=self.min_ping_interval_s,
            max_ping_strikes=self.max_ping_strikes,
            control_burst=self.control_burst,
            control_per_s=self.control_per_s,
        )
