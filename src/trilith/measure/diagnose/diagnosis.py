"""A whole diagnosis, and its form for programs. Pure."""

from __future__ import annotations

import msgspec

from trilith.measure.diagnose.evidence import Evidence
from trilith.measure.diagnose.verdict import Verdict
from trilith.measure.diagnose.verified import Verified
from trilith.measure.diagnose.waterfall import Waterfall


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What `trilith diagnose` found.

    Attributes:
        verdict: what the evidence says.
        evidence: all that was seen.
        waterfalls: of a median and of a slow request, at the load from which throughput is flat.
        waterfall_load: that load.
        verified: what the first change gave, when it was tried.
        conditions: the machine and the versions.
    """

    verdict: Verdict
    evidence: Evidence
    waterfalls: tuple[Waterfall, ...] = ()
    waterfall_load: int = 0
    verified: Verified | None = None
    conditions: dict[str, str | int | float] = {}


def to_json(diagnosis: Diagnosis) -> bytes:
    """Everything, indented. Durations are in seconds, uses of processors in cores."""
    raw = {"schema": "trilith-diagnose/1", **msgspec.to_builtins(diagnosis)}
    law = diagnosis.evidence.scalability
    raw["evidence"]["scalability"] = None if law is None else msgspec.to_builtins(law)
    for level, entry in zip(diagnosis.evidence.levels, raw["evidence"]["levels"], strict=True):
        entry["runnable"] = level.runnable
    return msgspec.json.format(msgspec.json.encode(raw), indent=2) + b"\n"
