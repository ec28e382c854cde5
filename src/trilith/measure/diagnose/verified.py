"""What a change gave when it was tried, beside what was predicted. Pure."""

from __future__ import annotations

import msgspec

from trilith.measure.diagnose.findings.finding import LATENCY, Change
from trilith.measure.laws import Estimate


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted beside measured.

    Attributes:
        change: what was changed.
        measured: how many times as much throughput, or as short a time; None when it could not be tried.
        inside: whether that is in the predicted interval.
        why_not: why it was not tried; "" when it was.
    """

    change: Change
    measured: Estimate | None = None
    inside: bool = False
    why_not: str = ""


def gain_of(change: Change, before: tuple[float, float], after: tuple[float, float]) -> float:
    """The measured gain; `before` and `after` are (throughput a second, median latency in seconds) at its load.

    Raises:
        ValueError: one of them has no throughput.
    """
    if min(*before, *after) <= 0:
        raise ValueError("no gain without answers before and after")
    return before[1] / after[1] if change.metric == LATENCY else after[0] / before[0]


def verified(change: Change, gains: list[float]) -> Verified:
    """From the gains of several rounds: their middle, least and most."""
    ordered = sorted(gains)
    middle = ordered[len(ordered) // 2] if len(ordered) % 2 else sum(ordered[len(ordered) // 2 - 1 :][:2]) / 2
    measured = Estimate(value=middle, low=ordered[0], high=ordered[-1])
    inside = change.gain is not None and change.gain.low <= middle <= change.gain.high
    return Verified(change=change, measured=measured, inside=inside)
