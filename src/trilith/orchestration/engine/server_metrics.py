"""What the gateway's two servers count, as metrics. Everything that they count is here.

trilith_connections{protocol}, trilith_connections_accepted_total{protocol}
trilith_server_requests_total{protocol}, trilith_server_requests_in_flight{protocol}
trilith_received_bytes_total{protocol}, trilith_sent_bytes_total{protocol}
trilith_http_responses_total{status}, trilith_grpc_responses_total{status}
trilith_held_bytes, trilith_held_refusals_total
trilith_refused_total{protocol, reason}, trilith_broken_off_total{protocol, reason}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from trilith.net.grpc import GrpcStatistics
from trilith.net.held_bytes import HeldBytes
from trilith.net.http1 import HttpStatistics
from trilith.telemetry import Reading, Source, snapshots


class _Counted(NamedTuple):
    """What both have counted at one scrape."""

    http: HttpStatistics
    grpc: GrpcStatistics


_Samples = Iterable[tuple[tuple[str, ...], float]]


def _both(number: Callable[[HttpStatistics | GrpcStatistics], float]) -> Callable[[_Counted], _Samples]:
    return lambda counted: [(("http",), number(counted.http)), (("grpc",), number(counted.grpc))]


def _refused(counted: _Counted) -> _Samples:
    yield from _by_reason("http", counted.http.refused)
    yield from _by_reason("grpc", counted.grpc.refused)


def _broken_off(counted: _Counted) -> _Samples:
    http, grpc = counted
    ends = {
        "client_left": http.disconnects,
        "stream_failed": http.aborted_streams,
        "write_timeout": http.write_timeouts,
    }
    yield from _by_reason("http", ends)
    faults = {code.lower(): count for code, count in grpc.protocol_errors.items()}
    ends = {"keepalive_timeout": grpc.keepalive_timeouts, "write_timeout": grpc.write_timeouts, **faults}
    yield from _by_reason("grpc", ends)


def _by_reason(protocol: str, counts: Mapping[str, int]) -> _Samples:
    return (((protocol, str(reason)), count) for reason, count in sorted(counts.items()))


_FAMILIES: Final[tuple[Reading[_Counted], ...]] = (
    Reading(
        "trilith_connections", "gauge", "Open connections.", ("protocol",), _both(lambda server: server.connections)
    ),
    Reading(
        "trilith_connections_accepted_total",
        "counter",
        "Connections accepted, those included that were then refused.",
        ("protocol",),
        _both(lambda server: server.connections_accepted_total),
    ),
    Reading(
        "trilith_server_requests_total",
        "counter",
        "Requests handed on by the servers.",
        ("protocol",),
        _both(lambda server: server.requests),
    ),
    Reading(
        "trilith_server_requests_in_flight",
        "gauge",
        "Requests that the servers have begun with and not ended.",
        ("protocol",),
        _both(lambda server: server.in_flight),
    ),
    Reading(
        "trilith_received_bytes_total",
        "counter",
        "Octets read from clients.",
        ("protocol",),
        _both(lambda server: server.bytes_received),
    ),
    Reading(
        "trilith_sent_bytes_total",
        "counter",
        "Octets written to clients.",
        ("protocol",),
        _both(lambda server: server.bytes_sent),
    ),
    Reading(
        "trilith_http_responses_total",
        "counter",
        "HTTP answers by status, those of requests that were refused at the door included.",
        ("status",),
        lambda counted: (((str(status),), count) for status, count in sorted(counted.http.responses.items())),
    ),
    Reading(
        "trilith_grpc_responses_total",
        "counter",
        "gRPC calls by the status that they ended with; CANCELLED includes clients that went away.",
        ("status",),
        lambda counted: (((status.name,), count) for status, count in sorted(counted.grpc.outcomes.items())),
    ),
    Reading(
        "trilith_refused_total",
        "counter",
        "What was refused before it became a request: limits, malformed heads, too many connections.",
        ("protocol", "reason"),
        _refused,
    ),
    Reading(
        "trilith_broken_off_total",
        "counter",
        "What ended without a whole answer: clients that left, did not read or broke HTTP/2, streams that failed.",
        ("protocol", "reason"),
        _broken_off,
    ),
)


_HELD: Final[tuple[Reading[HeldBytes], ...]] = (
    Reading(
        "trilith_held_bytes",
        "gauge",
        "Octets of requests that are not answered and of answers that are not sent.",
        (),
        lambda held: [((), held.held_bytes)],
    ),
    Reading(
        "trilith_held_refusals_total",
        "counter",
        "Requests that were refused, and answers that were given up, because too many octets were held.",
        (),
        lambda held: [((), held.refused)],
    ),
)


def held_source(held: HeldBytes) -> Source:
    """A source of what is kept for clients."""
    return lambda: snapshots(_HELD, held)


def server_source(http: Callable[[], HttpStatistics], grpc: Callable[[], GrpcStatistics]) -> Source:
    """A source of the counts of both servers, which are asked for them at scrape."""
    return lambda: snapshots(_FAMILIES, _Counted(http(), grpc()))
