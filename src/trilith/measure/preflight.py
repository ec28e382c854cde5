"""One request before the load, so that what is wrong with it is told at once and not measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.errors import SetupError
from trilith.measure.bench_plan import BenchPlan
from trilith.measure.load import Body, Traffic, prepare
from trilith.measure.load.http_station import HttpStation
from trilith.measure.load.probe import ProbeAnswer, probe
from trilith.measure.units import size

MADE_BODY: Final = "by /openapi.json"
"""How the report's name of a body ends that was made by the server's description."""

_FAILED: Final = (500, 501)  # those that say that it failed; 502 to 504 say that it may go better soon
_TRIES: Final = 3
_MOST_BODIES: Final = 16
_SHOWN: Final = 200


def made_name(body: Body) -> str:
    """What the report calls a body that nobody gave: its text, and where it is from."""
    if "json" not in body.content_type:
        return f"{size(len(body.content))} of {body.content_type} {MADE_BODY}"
    text = body.content.decode("utf-8", "replace")
    return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + ' ...'} {MADE_BODY}"


def preflight(plan: BenchPlan) -> bool:
    """Sends one request, a few when it fails. Returns whether the server tells its timeline.

    Raises:
        SetupError: see `first_answer`.
    """
    return first_answer(plan).has_timeline


def first_answer(plan: BenchPlan) -> ProbeAnswer:
    """Sends each body once to an HTTP endpoint (16 of them at most), a few times when it fails.

    Raises:
        SetupError: there is no answer, or the answer says that the request itself is wrong, or that it always fails.
    """
    bodies: Sequence[Body | None] = plan.bodies[:_MOST_BODIES] or (None,)
    several = len(bodies) > 1 and len(plan.body_names) >= len(bodies)
    answers = [
        _answer(plan, body, f" (body {number + 1}: {plan.body_names[number]})" if several else "")
        for number, body in enumerate(bodies)
    ]
    return answers[0]


def _answer(plan: BenchPlan, body: Body | None, which: str) -> ProbeAnswer:
    for _ in range(_TRIES):
        answer = probe(plan.target, plan.method, body, plan.headers, timeout_s=plan.timeout_s)
        if answer.status not in _FAILED:
            break
    else:
        made = any(name.endswith(MADE_BODY) for name in plan.body_names)
        raise SetupError(
            f"{plan.method} {plan.target.url}{which} is answered with status {answer.status}, {_TRIES} times in a row,"
            f" and how quickly something fails is not worth measuring: {answer.excerpt or 'no body'}. The server's log"
            f" says why{'; the body was made by what /openapi.json says, so give a real one by --data' if made else ''}"
        )
    if 400 <= answer.status < 500 and answer.status not in (408, 429):
        said = (answer.excerpt or "no body").rstrip(".")
        raise SetupError(
            f"{plan.method} {plan.target.url}{which} is answered with status {answer.status}, and more of the same"
            f" would be too: {said}. Check path, --method, --data, --content-type and --header."
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
