"""One request before the load, so that what is wrong with it is told at once and not measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.errors import SetupError
from trilith.measure.bench_plan import BenchPlan
from trilith.measure.load import Body, Traffic, prepare
from trilith.measure.load.http_station import HttpStation
from trilith.measure.load.probe import ProbeAnswer, probe

MADE_BODY: Final = "by /openapi.json"
"""What the report calls a body that was made by the server's description."""

_FAILED: Final = (500, 501)  # those that say that it failed; 502 to 504 say that it may go better soon
_TRIES: Final = 3


def preflight(plan: BenchPlan) -> bool:
    """Sends one request, a few when it fails. Returns whether the server tells its timeline.

    Raises:
        SetupError: see `first_answer`.
    """
    return first_answer(plan).has_timeline


def first_answer(plan: BenchPlan) -> ProbeAnswer:
    """Sends one request to an HTTP endpoint, a few when it fails.

    Raises:
        SetupError: there is no answer, or the answer says that the request itself is wrong, or that it always fails.
    """
    body = plan.bodies[0] if plan.bodies else None
    for _ in range(_TRIES):
        answer = probe(plan.target, plan.method, body, plan.headers, timeout_s=plan.timeout_s)
        if answer.status not in _FAILED:
            break
    else:
        made = plan.body_names == (MADE_BODY,)
        raise SetupError(
            f"{plan.method} {plan.target.url} is answered with status {answer.status}, {_TRIES} times in a row, and"
            f" how quickly something fails is not worth measuring: {answer.excerpt or 'no body'}. The server's log says"
            f" why{'; the body was made by what /openapi.json says, so give a real one by --data' if made else ''}"
        )
    if 400 <= answer.status < 500 and answer.status not in (408, 429):
        said = (answer.excerpt or "no body").rstrip(".")
        raise SetupError(
            f"{plan.method} {plan.target.url} is answered with status {answer.status}, and more of the same would be"
            f" too: {said}. Check path, --method, --data, --content-type and --header."
        )
    return answer


def http_traffic(plan: BenchPlan) -> Traffic:
    """The requests of a plan that has an HTTP endpoint and bodies."""
    target = plan.target
    bodies: Sequence[Body | None] = plan.bodies or (None,)
    return Traffic(
        make_station=lambda number: HttpStation(number, target, timeout_s=plan.timeout_s, items=plan.items),
        requests=[prepare(target, plan.method, body, plan.headers) for body in bodies],
        name=target.url,
        timelines_at=target,
    )
