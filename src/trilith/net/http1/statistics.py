"""What an HTTP server counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpStatistics:
    """Counts since the server started, and what is open now.

    Attributes:
        connections: open now.
        connections_total: accepted since the start, refused ones included.
        requests: handed to the application.
        in_flight: handed to the application and not answered yet.
        responses: answers by status, refusals included.
        refused: requests and connections that never reached the application, or whose body broke a rule, by reason.
        disconnects: requests whose client went away before the answer.
        aborted_streams: streamed answers that were cut because their source failed.
        write_timeouts: connections cut, and answers over HTTP/2 dropped, because the client did not read.
        bytes_received: read from sockets (after TLS).
        bytes_sent: handed to sockets (before TLS).
    """

    connections: int
    connections_total: int
    requests: int
    in_flight: int
    responses: Mapping[int, int]
    refused: Mapping[str, int]
    disconnects: int
    aborted_streams: int
    write_timeouts: int
    bytes_received: int
    bytes_sent: int


class HttpCounters:
    """The running counts behind `HttpStatistics`."""

    __slots__ = (
        "aborted_streams",
        "bytes_received",
        "bytes_sent",
        "connections_total",
        "disconnects",
        "refused",
        "requests",
        "responses",
        "write_timeouts",
    )

    def __init__(self) -> None:
        self.connections_total = 0
        self.requests = 0
        self.responses: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        self.disconnects = 0
        self.aborted_streams = 0
        self.write_timeouts = 0
        self.bytes_received = 0
        self.bytes_sent = 0
