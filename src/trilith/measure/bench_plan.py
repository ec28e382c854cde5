"""What `trilith bench` is to measure, as values."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.measure.levels import Arrivals, LevelPlan, closed_level, open_level
from trilith.measure.load import Body, Target, Traffic
from trilith.measure.slo import Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to measure.

    Attributes:
        target: the endpoint; of several, the first.
        method: HTTP method.
        bodies: sent in turn; empty for requests without a body.
        headers: of every request.
        concurrency: the levels, in order.
        duration_s: seconds measured at each level.
        warmup_s: seconds of load before each level that are not measured.
        timeout_s: seconds after which a request counts as failed.
        server_pid: the process whose tree's CPU time is read, or None.
        body_names: what the report calls the bodies.
        rates_per_s: instead of `concurrency`: open loops of so many requests a second.
        arrivals: of these: `poisson` or `constant`.
        in_flight: of open loops: the most requests in flight, and so many connections over HTTP/1.1.
        recording: instead of rates: instants in seconds to replay.
        speed: of that; 2.0 is twice as fast.
        levels: instead of all these: any levels.
        traffic: instead of target, method, bodies and headers: targets of any kind, one or several.
        slo: the promise to judge by, or None.
        search: whether to look for the highest rate that meets `slo`, instead of running levels.
        precision: of that search: the share by which the rate may be too low.
        seed: of the arrivals and of the choice among targets.
        url: what the report calls the target; by default its URL over HTTP.
        items: content type of answers that are streams of items; "" for answers that are one.
    """

    target: Target
    method: str
    bodies: tuple[Body, ...]
    headers: tuple[tuple[str, str], ...] = ()
    concurrency: tuple[int, ...] = (1, 8, 32)
    duration_s: float = 5.0
    warmup_s: float = 1.0
    timeout_s: float = 30.0
    server_pid: int | None = None
    body_names: tuple[str, ...] = ()
    rates_per_s: tuple[float, ...] = ()
    arrivals: Arrivals = "poisson"
    in_flight: int = 64
    recording: tuple[float, ...] = ()
    speed: float = 1.0
    levels: tuple[LevelPlan, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    slo: Slo | None = None
    search: bool = False
    precision: float = 0.05
    seed: int = 0
    items: str = ""
    url: str = ""

    def level_plans(self) -> tuple[LevelPlan, ...]:
        """The levels, in order; those of a search are not known before."""
        if self.levels or self.search:
            return self.levels
        duration_s, warmup_s = self.duration_s, self.warmup_s
        if self.recording:
            replayed = LevelPlan(
                name="replay", concurrency=self.in_flight, duration_s=duration_s, warmup_s=warmup_s,
                arrivals="replay", recording=self.recording, speed=self.speed,
            )  # fmt: skip
            return (replayed,)
        if self.rates_per_s:
            return tuple(self.open_level(rate) for rate in self.rates_per_s)
        return tuple(closed_level(concurrency, duration_s, warmup_s) for concurrency in self.concurrency)

    def open_level(self, rate_per_s: float) -> LevelPlan:
        """An open loop of so many requests a second, in other respects like the plan's."""
        return open_level(rate_per_s, self.duration_s, self.warmup_s, arrivals=self.arrivals, in_flight=self.in_flight)
