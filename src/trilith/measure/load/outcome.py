"""What one level of load gave, and whether the generator itself was the bottleneck. Pure.

Rule: a measurement that its own instrument limited is worthless, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trilith.measure.load.recorder import Recorder

SATURATED_CPU_SHARE: Final = 0.90
"""From this share of one core on, the generator and not the server sets the pace."""

CONTENDED_WAIT_SHARE: Final = 0.10
"""From this share of time spent waiting for a core on, latencies include the machine's scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorLoad:
    """What the generator's only thread did during a measurement.

    Attributes:
        cpu_share: share of the time that it computed, 0 to 1.
        wait_share: share of the time that it was ready and had no core, 0 to 1; 0 where the system does not say.
        spun: whether it turned without sleep between requests, so that `cpu_share` is near 1 whatever it does.
    """

    cpu_share: float
    wait_share: float
    spun: bool = False

    @property
    def saturated(self) -> bool:
        """Whether the figures are the generator's and not the server's."""
        return self.cpu_share >= SATURATED_CPU_SHARE and not self.spun

    @property
    def contended(self) -> bool:
        """Whether generator and others fought for cores so much that latencies are inflated."""
        return self.wait_share >= CONTENDED_WAIT_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOutcome:
    """What one level gave.

    Attributes:
        recorder: the counts.
        elapsed_s: seconds actually measured.
        generator: what the generator itself used.
        server_cpu_s: CPU seconds of the server while measured, or None when not asked for.
        interrupted: whether the level was stopped before its time.
    """

    recorder: Recorder
    elapsed_s: float
    generator: GeneratorLoad
    server_cpu_s: float | None
    interrupted: bool
