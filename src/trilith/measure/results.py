"""What a benchmark found: plain frozen values, ready for a table, JSON or CSV. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.measure.breakdown import Breakdown, break_down
from trilith.measure.histogram import DurationSummary
from trilith.measure.load.outcome import GeneratorLoad, LoadOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """One level of load.

    Attributes:
        concurrency: requests in flight.
        duration_s: seconds measured.
        requests_per_s: successful answers a second.
        latency: of successful answers.
        errors: failed requests by kind.
        sent_bytes: size of the requests sent.
        received_bytes: bytes read.
        connections: connections opened while measured.
        generator: what the generator used.
        server_cpu_s: CPU seconds of the server's process tree, or None when no process was named.
        breakdown: where the server spent the time, or None when it does not say.
        interrupted: whether the level was stopped before its time.
    """

    concurrency: int
    duration_s: float
    requests_per_s: float
    latency: DurationSummary
    errors: dict[str, int]
    sent_bytes: int
    received_bytes: int
    connections: int
    generator: GeneratorLoad
    server_cpu_s: float | None
    breakdown: Breakdown | None
    interrupted: bool

    @property
    def failed(self) -> int:
        """Number of failed requests."""
        return sum(self.errors.values())

    @property
    def nothing_ended(self) -> bool:
        """Whether no request was answered or failed: each takes longer than was measured."""
        return not self.latency.count and not self.failed

    @property
    def spoiled(self) -> bool:
        """Whether the figures describe the generator rather than the server."""
        return self.generator.saturated

    @property
    def server_cpu_per_request_s(self) -> float | None:
        """CPU seconds of the server a request, failed ones included; None when not measured or nothing was answered."""
        requests = self.latency.count + self.failed
        return None if self.server_cpu_s is None or not requests else self.server_cpu_s / requests

    @classmethod
    def of(cls, outcome: LoadOutcome, concurrency: int) -> LevelResult:
        """Turns the counts of one level into figures."""
        recorder = outcome.recorder
        latency = recorder.latencies.summary()
        return cls(
            concurrency=concurrency,
            duration_s=outcome.elapsed_s,
            requests_per_s=latency.count / outcome.elapsed_s if outcome.elapsed_s > 0 else 0.0,
            latency=latency,
            errors=dict(recorder.errors.most_common()),
            sent_bytes=recorder.sent_bytes,
            received_bytes=recorder.received_bytes,
            connections=recorder.connections,
            generator=outcome.generator,
            server_cpu_s=outcome.server_cpu_s,
            breakdown=break_down(recorder.samples),
            interrupted=outcome.interrupted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """All levels of one run of `trilith bench`.

    Attributes:
        url: the endpoint.
        method: HTTP method.
        bodies: what was sent: names of the files, "inline", "example" or nothing.
        conditions: the machine and the versions at the start.
        levels: in the order in which they ran.
        interrupted: whether the run was stopped before its time.
    """

    url: str
    method: str
    bodies: tuple[str, ...]
    conditions: dict[str, str | int | float]
    levels: tuple[LevelResult, ...]
    interrupted: bool = False

    @property
    def nothing_ended(self) -> bool:
        """Whether no request of any level was answered or failed."""
        return bool(self.levels) and all(level.nothing_ended for level in self.levels)

    @property
    def none_succeeded(self) -> bool:
        """Whether there is no figure: no request succeeded at any level."""
        return not any(level.latency.count for level in self.levels)
