"""What a search wants to be measured next. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.measure.tune.space import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What to measure next.

    Attributes:
        configuration: a value for each knob.
        share: for how long, as a multiple of the usual time.
        part: `start`, `spread`, `search`, `unlikely` (little is expected of it), `again`, `choice`,
            `doubt` (a contradiction) or `final`.
    """

    configuration: Configuration
    share: float
    part: str
