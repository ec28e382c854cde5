"""What the gateway counts of service calls, the router and its servers.

trilith_service_calls_total{service, method, outcome}          outcome: ok, or an error's code
trilith_service_call_seconds{service, method, phase}           phase: total, queue, compute
trilith_service_batch_size{service, method}                    calls in each batch that a replica was given
trilith_service_waiting{service}, trilith_service_in_flight{service}, trilith_service_replicas{service}
trilith_calls_retried_total
trilith_connections{protocol}, trilith_server_requests_total{protocol}
trilith_http_responses_total{status}, trilith_refused_total{protocol, reason}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from trilith.errors import TrilithError
from trilith.net.grpc import GrpcServer, GrpcStatistics
from trilith.net.http1 import HttpServer, HttpStatistics
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.deployments import Deployment, MethodRoute
from trilith.orchestration.engine.router import Router
from trilith.telemetry import BATCH_BOUNDS, Distribution, Kind, Metrics, Number, Snapshot

_PHASES = ("total", "queue", "compute")


class _Counted(NamedTuple):
    """What the router and the servers know at one scrape."""

    router: Router
    deployments: Sequence[Deployment]
    http: HttpStatistics
    grpc: GrpcStatistics


_Samples = Iterable[tuple[tuple[str, ...], float]]


def _refused(counted: _Counted) -> _Samples:
    for protocol, refused in (("http", counted.http.refused), ("grpc", counted.grpc.refused)):
        yield from (((protocol, str(reason)), count) for reason, count in sorted(refused.items()))


_FAMILIES: Final[tuple[tuple[str, Kind, str, tuple[str, ...], Callable[[_Counted], _Samples]], ...]] = (
    (
        "trilith_service_waiting",
        "gauge",
        "Calls that no replica has yet.",
        ("service",),
        lambda counted: (((each.service,), counted.router.waiting(each.service)) for each in counted.deployments),
    ),
    (
        "trilith_service_in_flight",
        "gauge",
        "Calls at replicas.",
        ("service",),
        lambda counted: (((each.service,), each.in_flight) for each in counted.deployments),
    ),
    (
        "trilith_service_replicas",
        "gauge",
        "Replicas that serve.",
        ("service",),
        lambda counted: (((each.service,), len(each.replicas)) for each in counted.deployments),
    ),
    (
        "trilith_calls_retried_total",
        "counter",
        "Calls sent again after their replica was lost.",
        (),
        lambda counted: [((), counted.router.retried)],
    ),
    (
        "trilith_connections",
        "gauge",
        "Open connections.",
        ("protocol",),
        lambda counted: [(("http",), counted.http.connections), (("grpc",), counted.grpc.connections)],
    ),
    (
        "trilith_server_requests_total",
        "counter",
        "Requests handed on by the servers.",
        ("protocol",),
        lambda counted: [(("http",), counted.http.requests), (("grpc",), counted.grpc.calls)],
    ),
    (
        "trilith_received_bytes_total",
        "counter",
        "Octets read from clients.",
        ("protocol",),
        lambda counted: [(("http",), counted.http.bytes_received), (("grpc",), counted.grpc.bytes_received)],
    ),
    (
        "trilith_sent_bytes_total",
        "counter",
        "Octets written to clients.",
        ("protocol",),
        lambda counted: [(("http",), counted.http.bytes_sent), (("grpc",), counted.grpc.bytes_sent)],
    ),
    (
        "trilith_http_responses_total",
        "counter",
        "HTTP answers by status, those of requests that were refused at the door included.",
        ("status",),
        lambda counted: (((str(status),), count) for status, count in sorted(counted.http.responses.items())),
    ),
    (
        "trilith_refused_total",
        "counter",
        "What was refused before it became a request: limits, malformed heads, too many connections.",
        ("protocol", "reason"),
        _refused,
    ),
)


class _Method(NamedTuple):
    """The series of one method that nearly every call adds to."""

    ok: Number
    total: Distribution
    queue: Distribution
    compute: Distribution


class ServiceMetrics:
    """Service metrics of one gateway."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._calls = metrics.counter(
            "trilith_service_calls_total", "Calls settled, by outcome.", ("service", "method", "outcome")
        )
        self._seconds = metrics.histogram(
            "trilith_service_call_seconds", "Seconds that calls spent, by phase.", ("service", "method", "phase")
        )
        self._batch_sizes = metrics.histogram(
            "trilith_service_batch_size",
            "Calls in each batch that a replica was given.",
            ("service", "method"),
            bounds=BATCH_BOUNDS,
        )
        self._methods: dict[tuple[str, str], _Method] = {}

    def observe(self, call: PendingCall, error: TrilithError | None) -> None:
        """Counts a settled call."""
        route = call.route
        method = self._methods.get((route.service, route.method))
        if method is None:
            method = self._method(route.service, route.method)
        if error is None:
            method.ok.value += 1
        else:
            self._calls.labelled(route.service, route.method, error.code).value += 1
        method.total.observe(time.monotonic() - call.received_at)
        if call.finished_at:
            method.queue.observe(call.sent_at - call.submitted_at)
            method.compute.observe(call.finished_at - call.started_at)

    def observe_batch(self, route: MethodRoute, calls: int) -> None:
        """Counts a batch that a replica was given."""
        self._batch_sizes.labelled(route.service, route.method).observe(calls)

    def _method(self, service: str, name: str) -> _Method:
        total, queue, compute = (self._seconds.labelled(service, name, phase) for phase in _PHASES)
        method = _Method(self._calls.labelled(service, name, "ok"), total, queue, compute)
        self._methods[service, name] = method
        return method

    def watch(self, router: Router, http: HttpServer, grpc: GrpcServer) -> None:
        """Adds what the router and the servers count themselves; asked at scrape."""

        def snapshots() -> Iterable[Snapshot]:
            counted = _Counted(router, router.deployments, http.statistics(), grpc.statistics())
            return [
                Snapshot(name=name, kind=kind, help=text, label_names=labels, samples=list(samples(counted)))
                for name, kind, text, labels, samples in _FAMILIES
            ]

        self._metrics.add_source(snapshots)
