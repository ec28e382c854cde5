"""What a rule found: a stage that explains part of the time, why, and what would help by how much. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trilith.measure.laws import Estimate

MODEL_FLOOR: Final = "model"
PYTHON_FLOOR: Final = "python"
SCALE_FLOOR: Final = "scale"
CLIENT_FLOOR: Final = "client"
NO_FLOOR: Final = "nothing"

FLOOR_WORDS: Final = {
    MODEL_FLOOR: "1, the model's execution",
    PYTHON_FLOOR: "2, the Python around the model",
    SCALE_FLOOR: "3, scale and scheduling",
    CLIENT_FLOOR: "none of the server's: the client",
    NO_FLOOR: "none: there is room",
}

LATENCY: Final = "latency"
THROUGHPUT: Final = "throughput"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to change.

    Attributes:
        what: in a sentence for a person.
        settings: the same for `trilith serve --set`, where it can be set; else empty.
        metric: `throughput` at `load`, or `latency`: that of one request at `load`.
        load: requests in flight at which the gain is predicted.
        gain: how many times as much throughput, or as short a time; None where no law says.
        why: the law and the figures behind the prediction.
    """

    what: str
    metric: str = THROUGHPUT
    load: int = 1
    gain: Estimate | None = None
    settings: dict[str, Any] = {}
    why: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that explains part of the time.

    Attributes:
        floor: one of `FLOOR_WORDS`.
        stage: a word for it, as `too-few-replicas`.
        where: the service or model; "" for the whole.
        sentence: the verdict in one sentence.
        evidence: sentences with figures.
        weight: how well it explains what was seen, 0 to 1: above all the part of a request's time that it accounts for.
        sure: how much the evidence itself can be trusted, 0 to 1.
        changes: what would help, best first.
    """

    floor: str
    stage: str
    where: str = ""
    sentence: str
    evidence: tuple[str, ...]
    weight: float
    sure: float = 0.9
    changes: tuple[Change, ...] = ()


def around(gain: float, *, below: float = 0.15, above: float = 0.15, least: float = 1.0) -> Estimate:
    """An estimate with an interval by shares of what it gains; never below `least`."""
    return Estimate(value=gain, low=max(least, gain * (1 - below)), high=gain * (1 + above))


def percent(share: float) -> str:
    """A share for a person."""
    return f"{share:.0%}"
