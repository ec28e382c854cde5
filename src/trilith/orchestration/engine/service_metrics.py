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

from trilith.errors import TrilithError
from trilith.net.grpc import GrpcServer
from trilith.net.http1 import HttpServer
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.router import Router
from trilith.telemetry import Distribution, Metrics, Snapshot

_PHASES = ("total", "queue", "compute")


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
        self._phases: dict[tuple[str, str], tuple[Distribution, ...]] = {}

    def observe(self, call: PendingCall, error: TrilithError | None) -> None:
        """Counts a settled call."""
        route = call.route
        outcome = "ok" if error is None else error.code
        self._calls.labelled(route.service, route.method, outcome).value += 1
        key = (route.service, route.method)
        phases = self._phases.get(key)
        if phases is None:
            phases = self._phases[key] = tuple(self._seconds.labelled(*key, phase) for phase in _PHASES)
        phases[0].observe(time.monotonic() - call.received_at)
        if call.finished_at:
            phases[1].observe(call.sent_at - call.submitted_at)
            phases[2].observe(call.finished_at - call.started_at)

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

        self._metrics.add_source(snapshots)
