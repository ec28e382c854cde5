"""How much of everything one HTTP server takes from a client."""

from __future__ import annotations

from dataclasses import dataclass, fields

from trilith.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds on sizes, counts and times of an HTTP server. All must be greater than zero.

    Attributes:
        max_connections: open connections; one more takes the place of one that is idle, or is answered 503 and closed.
        max_turned_away: connections over that bound which are told so at a time; more are cut at once.
        max_url_bytes: length of the request target; beyond it 414.
        max_head_bytes: request line and header fields together; beyond it 431.
        max_headers: number of header fields; beyond it 431.
        max_body_bytes: length of a request body; beyond it 413, before the body is read where its length is declared.
        early_start_bytes: the application sees a request with a longer body before the body is here.
        read_ahead_bytes: bytes of an early request's body that are kept while nobody reads it; then the client is held.
        discard_bytes: an unread body with no more than this to come is skipped after the answer, so that the
            connection can be kept; with more to come the connection is closed.
        write_buffer_bytes: bytes of answers that wait for a slow client before streams are held.
        max_pipelined: requests that may wait behind the one being answered; then the client is held.
        max_concurrent_streams: requests at a time on one HTTP/2 connection.
        head_timeout_s: seconds from the first byte of a request to the end of its head.
        body_timeout_s: seconds without a byte of the body while the server would read one.
        idle_timeout_s: seconds a connection may stay open without a request.
        write_timeout_s: seconds without progress while an answer waits for the client to read.
        linger_timeout_s: seconds for which a refused client may go on sending, so that it can read why.
        websocket_ping_s: seconds of silence after which the client of a websocket is asked for a sign of life.
        websocket_pong_s: seconds that it has for it.
        websocket_close_s: seconds for which a websocket that the server closed waits for its client to close, too.
        tick_s: the resolution of all these times; also how often the `date` header is written anew.
    """

    max_connections: int = 1024
    max_turned_away: int = 256
    max_url_bytes: int = 16 << 10
    max_head_bytes: int = 64 << 10
    max_headers: int = 100
    max_body_bytes: int = 64 << 20
    early_start_bytes: int = 1 << 20
    read_ahead_bytes: int = 256 << 10
    discard_bytes: int = 256 << 10
    write_buffer_bytes: int = 256 << 10
    max_pipelined: int = 16
    max_concurrent_streams: int = 100
    head_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: float = 60.0
    write_timeout_s: float = 30.0
    linger_timeout_s: float = 2.0
    websocket_ping_s: float = 20.0
    websocket_pong_s: float = 20.0
    websocket_close_s: float = 5.0
    tick_s: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InvalidConfig(f"http limits: {field.name} must be greater than 0, got {value!r}")
