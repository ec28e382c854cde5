"""From evidence to a verdict: which floor, which stage, how sure, what else it could be, what would help. Pure.

Rule 1: evidence in, verdict out: no clock, no file, no server. The same evidence gives the same verdict.
Rule 2: every rule of `findings` looks at the same evidence; the one that explains most is the verdict, the next one of
        another stage is the next-best explanation.
Rule 3: of a machine or a server of which nothing can be said, that is said.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trilith.measure.diagnose.evidence import Evidence
from trilith.measure.diagnose.findings import RULES
from trilith.measure.diagnose.findings.finding import FLOOR_WORDS, Change, Finding
from trilith.measure.diagnose.no_verdict import refusal, unexplained, what_would_show_more
from trilith.measure.diagnose.telling import what_tells_apart
from trilith.measure.diagnose.view import View

NOISIEST: Final = 1.0
"""From this spread on, one piece of work in ten takes twice as long as an equal one: nothing is said."""

_MOST_CHANGES: Final = 3
_LEAST_GAIN: Final = 1.05
_TAKEN: Final = 0.25
_FOREIGN: Final = 0.45
"""What a machine whose cores are all used by others takes from the confidence."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the evidence says.

    Attributes:
        floor: `model`, `python`, `scale`, `client`, `nothing`, or `unknown`.
        stage: a word for it; "" when unknown.
        where: the service or model; "" for the whole.
        sentence: all of it in one sentence.
        evidence: sentences with figures.
        confidence: 0 to 1.
        next_best: what it could be instead, or None.
        apart: what would tell the two apart.
        changes: at most three, the most helpful first.
    """

    floor: str
    stage: str
    where: str = ""
    sentence: str
    evidence: tuple[str, ...] = ()
    confidence: float = 0.0
    next_best: Finding | None = None
    apart: str = ""
    changes: tuple[Change, ...] = ()

    @property
    def floor_words(self) -> str:
        """The floor for a person."""
        return FLOOR_WORDS.get(self.floor, "not known")

    @property
    def confidence_word(self) -> str:
        """How sure, in a word."""
        return "high" if self.confidence >= 0.7 else "medium" if self.confidence >= 0.4 else "low"


def decide(evidence: Evidence, *, noisiest: float = NOISIEST) -> Verdict:
    """The verdict.

    Args:
        evidence: what was seen.
        noisiest: the largest spread of the machine with which a verdict is given.
    """
    refused = refusal(evidence, noisiest)
    if refused:
        return Verdict(floor="unknown", stage="", sentence=refused)
    view = View(evidence)
    found = sorted((finding for rule in RULES for finding in rule(view)), key=lambda finding: -finding.weight)
    if not found:
        return Verdict(
            floor="unknown",
            stage="",
            sentence="No single bottleneck explains what was seen.",
            evidence=(*unexplained(view), *_doubts(evidence)),
            apart=what_would_show_more(view),
        )
    best = found[0]
    others = [finding for finding in found[1:] if finding.stage != best.stage]
    next_best = others[0] if others else None
    return Verdict(
        floor=best.floor,
        stage=best.stage,
        where=best.where,
        sentence=best.sentence,
        evidence=(*best.evidence, *_doubts(evidence)),
        confidence=_confidence(best, next_best, evidence, noisiest),
        next_best=next_best,
        apart=what_tells_apart(best.stage, next_best.stage if next_best is not None else ""),
        changes=_changes(best, others),
    )


def _confidence(best: Finding, next_best: Finding | None, evidence: Evidence, noisiest: float) -> float:
    """Trust in the evidence, less what the next-best explanation and the machine's noise take from it."""
    lead = 1.0 if next_best is None else min(1.0, (best.weight - next_best.weight) / max(best.weight, 1e-9) / 0.4)
    seen = evidence.noise
    noise = 0.0 if seen is None else min(1.0, max(seen.spread / noisiest, 0.5 * seen.waited))
    taken = 0.0 if seen is None else min(1.0, seen.foreign / max(1, evidence.cores))
    return round(best.sure * (0.55 + 0.45 * lead) * (1 - max(0.35 * noise, _FOREIGN * taken)), 2)


def _changes(best: Finding, others: list[Finding]) -> tuple[Change, ...]:
    """Those of the verdict first; of others only what the same bottleneck does not make useless."""
    changes = list(best.changes)
    for finding in others:
        if finding.weight >= 0.5 * best.weight and best.floor not in ("client", "nothing"):
            changes += finding.changes[:1]
    worth = [change for change in changes if change.gain is None or change.gain.value >= _LEAST_GAIN]
    return tuple(worth[:_MOST_CHANGES])


def _doubts(evidence: Evidence) -> list[str]:
    """What takes something from the figures."""
    doubts = []
    noise = evidence.noise
    if noise is not None and noise.foreign >= _TAKEN * evidence.cores:
        doubts.append(
            f"Other programs used {noise.foreign:.1f} of the machine's {evidence.cores} cores between the loads: the"
            f" figures are of what they left."
        )
    failed = sum(level.failed for level in evidence.levels)
    if failed:
        answered = sum(level.latency.count for level in evidence.levels)
        doubts.append(f"{failed:,} of {failed + answered:,} requests failed; the figures are of the others.")
    if evidence.interrupted:
        doubts.append("The run was stopped before its end.")
    return doubts
