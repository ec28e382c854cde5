"""What the gateway counts of service calls, the router and its servers.

trilith_service_calls_total{service, method, outcome}          outcome: ok, or an error's code
trilith_service_call_seconds{service, method, phase}           phase: total, queue, compute
trilith_service_waiting{service}, trilith_service_in_flight{service}, trilith_service_replicas{service}
trilith_calls_retried_total
trilith_connections{protocol}, trilith_server_requests_total{protocol}
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from trilith.errors import TrilithError
from trilith.net.grpc import GrpcServer
from trilith.net.http1 import HttpServer
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.router import Router
from trilith.telemetry import Distribution, Metrics, Number, Snapshot

_PHASES = ("total", "queue", "compute")


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

    def _method(self, service: str, name: str) -> _Method:
        total, queue, compute = (self._seconds.labelled(service, name, phase) for phase in _PHASES)
        method = _Method(self._calls.labelled(service, name, "ok"), total, queue, compute)
        self._methods[service, name] = method
        return method

    def watch(self, router: Router, http: HttpServer, grpc: GrpcServer) -> None:
        """Adds what the router and the servers count themselves; asked at scrape."""

        def snapshots() -> Iterable[Snapshot]:
            deployments = router.deployments

            def gauge(name: str, help: str, values: dict[str, float]) -> Snapshot:
                samples = [((service,), value) for service, value in values.items()]
                return Snapshot(name=name, kind="gauge", help=help, label_names=("service",), samples=samples)

            yield gauge(
                "trilith_service_waiting",
                "Calls that no replica has yet.",
                {deployment.service: router.waiting(deployment.service) for deployment in deployments},
            )
            yield gauge(
                "trilith_service_in_flight",
                "Calls at replicas.",
                {deployment.service: deployment.in_flight for deployment in deployments},
            )
            yield gauge(
                "trilith_service_replicas",
                "Replicas that serve.",
                {deployment.service: len(deployment.replicas) for deployment in deployments},
            )
            yield Snapshot(
                name="trilith_calls_retried_total",
                kind="counter",
                help="Calls sent again after their replica was lost.",
                samples=[((), router.retried)],
            )
            web, rpc = http.statistics(), grpc.statistics()
            yield Snapshot(
                name="trilith_connections",
                kind="gauge",
                help="Open connections.",
                label_names=("protocol",),
                samples=[(("http",), web.connections), (("grpc",), rpc.connections)],
            )
            yield Snapshot(
                name="trilith_server_requests_total",
                kind="counter",
                help="Requests read, refused ones included.",
                label_names=("protocol",),
                samples=[(("http",), web.requests), (("grpc",), rpc.calls)],
            )

            yield Snapshot(
                name="trilith_http_responses_total",
                kind="counter",
                help="HTTP answers by status, those of requests that were refused at the door included.",
                label_names=("status",),
                samples=[((str(status),), count) for status, count in sorted(web.responses.items())],
            )
            yield Snapshot(
                name="trilith_refused_total",
                kind="counter",
                help="What was refused before it became a request: limits, malformed heads, too many connections.",
                label_names=("protocol", "reason"),
                samples=[
                    ((protocol, str(reason)), count)
                    for protocol, refused in (("http", web.refused), ("grpc", rpc.refused))
                    for reason, count in sorted(refused.items())
                ],
            )

        self._metrics.add_source(snapshots)
