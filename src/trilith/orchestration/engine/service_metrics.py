"""What the gateway counts of service calls, and what its router does.

trilith_service_calls_total{service, method, outcome}          outcome: ok, or an error's code
trilith_service_call_seconds{service, method, phase}           phase: total, queue, compute; of streams first_item too
trilith_service_stream_items_total{service, method, direction} direction: out (of the method), in (to it)
trilith_service_streams{service}                               calls of streaming methods at replicas
trilith_service_batch_size{service, method}                    calls in each batch that a replica was given
trilith_service_waiting{service}, trilith_service_in_flight{service}, trilith_service_replicas{service}
trilith_calls_retried_total
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from trilith.errors import TrilithError
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import LinkedDeployment, PendingCall
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.telemetry import BATCH_BOUNDS, Distribution, Metrics, Number, Reading, snapshots

_PHASES = ("total", "queue", "compute")


def _streams(deployment: LinkedDeployment) -> int:
    return sum(isinstance(call, StreamCall) for link in deployment.everyone for call in link.calls.values())


_FAMILIES: Final[tuple[Reading[Router], ...]] = (
    Reading(
        "trilith_service_waiting",
        "gauge",
        "Calls that no replica has yet.",
        ("service",),
        lambda router: (((each.service,), router.waiting(each.service)) for each in router.deployments),
    ),
    Reading(
        "trilith_service_in_flight",
        "gauge",
        "Calls at replicas.",
        ("service",),
        lambda router: (((each.service,), each.in_flight) for each in router.deployments),
    ),
    Reading(
        "trilith_service_replicas",
        "gauge",
        "Replicas that serve.",
        ("service",),
        lambda router: (
            ((each.service,), sum(not link.unready for link in each.replicas)) for each in router.deployments
        ),
    ),
    Reading(
        "trilith_service_streams",
        "gauge",
        "Calls of streaming methods at replicas.",
        ("service",),
        lambda router: (((each.service,), _streams(each)) for each in router.deployments),
    ),
    Reading(
        "trilith_service_stream_items_total",
        "counter",
        "Items of streams, out of methods and in to them.",
        ("service", "method", "direction"),
        lambda router: (
            ((*key, direction), count)
            for key, counts in router.items.items()
            for direction, count in (("out", counts.given), ("in", counts.taken))
        ),
    ),
    Reading(
        "trilith_calls_retried_total",
        "counter",
        "Calls sent again after their replica was lost.",
        (),
        lambda router: [((), router.retried)],
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
        if isinstance(call, StreamCall) and call.items_out:
            first = self._seconds.labelled(route.service, route.method, "first_item")
            first.observe(call.first_item_at - call.received_at)
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

    def watch(self, router: Router) -> None:
        """Adds what the router knows itself; asked at scrape."""
        self._metrics.add_source(lambda: snapshots(_FAMILIES, router))
