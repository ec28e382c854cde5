"""What the fronts of the Open Inference Protocol count of every request: how many, how they ended, how long it took.

Rule: a phase is a subtraction of two stamps of the request's timeline; nothing is timed a second time.

    trilith_oip_requests_total{protocol, endpoint, method, status}
    trilith_oip_requests_in_flight{protocol}
    trilith_oip_request_seconds{protocol, endpoint, phase}
        total    received -> answered
        decode   received -> decoded
        encode   the last of decoded and the children's stamps -> encoded
        queue    queued -> started, of each direct child (a model, a service)
        compute  started -> infer, of each direct child
"""

from __future__ import annotations

from typing import Final

from trilith.core.timeline import ANSWERED, DECODED, ENCODED, INFER, QUEUED, RECEIVED, STARTED, Timeline
from trilith.telemetry.families import Distribution, Number
from trilith.telemetry.metrics import Metrics

PHASES: Final = ("total", "decode", "encode", "queue", "compute")
"""Values of the label `phase`."""


class RequestMetrics:
    """The metrics of requests; one a process, shared by its fronts."""

    def __init__(self, metrics: Metrics) -> None:
        self._counts = metrics.counter(
            "trilith_oip_requests_total",
            "Requests to models answered, by protocol, endpoint, method and status.",
            ("protocol", "endpoint", "method", "status"),
        )
        self._seconds = metrics.histogram(
            "trilith_oip_request_seconds",
            "Seconds that requests to models spent, by phase.",
            ("protocol", "endpoint", "phase"),
        )
        self._in_flight = metrics.gauge(
            "trilith_oip_requests_in_flight", "Requests to models received and not yet answered.", ("protocol",)
        )
        self._phases: dict[tuple[str, str], tuple[Distribution, ...]] = {}

    def in_flight(self, protocol: str) -> Number:
        """The gauge of one protocol: a front adds 1 on arrival and -1 when the request is over."""
        return self._in_flight.labelled(protocol)

    def finished(self, protocol: str, endpoint: str, method: str, status: str, timeline: Timeline | None) -> None:
        """Counts one request that is over.

        Args:
            protocol: `http` or `grpc`.
            endpoint: the route's name, never a path that a client chose.
            method: the HTTP or gRPC method; one of a fixed set.
            status: the status code's text.
            timeline: its stamps, or None where no phase matters.
        """
        self._counts.labelled(protocol, endpoint, method, status).value += 1
        if timeline is None:
            return
        phases = self._phases.get((protocol, endpoint))
        if phases is None:
            phases = tuple(self._seconds.labelled(protocol, endpoint, phase) for phase in PHASES)
            self._phases[protocol, endpoint] = phases
        _observe(timeline, *phases)


def _observe(
    timeline: Timeline,
    total: Distribution,
    decode: Distribution,
    encode: Distribution,
    queue: Distribution,
    compute: Distribution,
) -> None:
    at = dict(timeline.stamps)
    received, decoded, encoded = at.get(RECEIVED), at.get(DECODED), at.get(ENCODED)
    answered = at.get(ANSWERED, encoded)
    if received is not None and answered is not None:
        total.observe(answered - received)
    if received is not None and decoded is not None:
        decode.observe(decoded - received)
    last = decoded
    for child in timeline.children:
        stamps = child.stamps
        if not stamps:
            continue
        of_child = dict(stamps)
        started = of_child.get(STARTED)
        if started is not None:
            if QUEUED in of_child:
                queue.observe(started - of_child[QUEUED])
            if INFER in of_child:
                compute.observe(of_child[INFER] - started)
        last = stamps[-1][1] if last is None else max(last, stamps[-1][1])
    if encoded is not None and last is not None:
        encode.observe(encoded - last)
