"""What timelines alone say: of a Trilith server on another machine, or one that tells nothing of its replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trilith.measure.diagnose.findings.finding import MODEL_FLOOR, PYTHON_FLOOR, SCALE_FLOOR, Change, Finding, percent
from trilith.measure.diagnose.view import View

_WAITS: Final = 0.3
_LESS_SURE: Final = 0.5


def seen_by_timelines(view: View) -> Iterator[Finding]:
    """Where requests wait when the server is full, and what they do when it is not; why is not seen."""
    level = view.full
    if not view.evidence.tells_time or level.stations or not view.saturated:
        return
    of_floor = {
        floor: sum(stage.share for stage in view.alone.stages if stage.floor == floor and not stage.waiting)
        for floor in (1, 2)
    }
    models, replicas = view.waits_for_models(level), view.share(level, ("queued", "sent"), floor=3)
    if max(models, replicas) < _WAITS:
        return
    what = "an instance of a model" if models > replicas else "a replica"
    evidence = (
        f"At {level.load} in flight {percent(max(models, replicas))} of a request's time is waiting for {what}.",
        f"One request alone spends {percent(of_floor[1])} of its time in models and {percent(of_floor[2])} in Python.",
    )
    if view.machine_full:
        model = of_floor[1] >= of_floor[2]
        yield Finding(
            floor=MODEL_FLOOR if model else PYTHON_FLOOR,
            stage="model-compute" if model else "python-compute",
            sentence=f"The machine is full, and {'models take' if model else 'Python takes'} most of the time.",
            evidence=evidence,
            weight=0.4,
            sure=_LESS_SURE,
            changes=(Change(what="Make that cheaper, or add cores.", load=level.load),),
        )
        return
    yield Finding(
        floor=SCALE_FLOOR,
        stage="too-few-instances" if models > replicas else "too-few-replicas",
        sentence=f"Requests wait for {what}; whether there are too few, or they are slow, cannot be seen from here.",
        evidence=evidence,
        weight=0.4,
        sure=_LESS_SURE,
        changes=(
            Change(
                what="Add one; or diagnose on the server's machine, where processors and replicas can be seen.",
                load=level.load,
                why="No law predicts it without their use of processors.",
            ),
        ),
    )
