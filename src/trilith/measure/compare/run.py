"""Runs a comparison: each contestant in turn, round by round, by the load of `trilith bench`.

Rule 1: what was measured so far is kept from the first round on, and `Comparing.report` may be called at any time; so
        whatever ends the run, an interrupt included, leaves a readable result.
Rule 2: a round that was not measured to its end counts for nothing.
Rule 3: a contestant that gives no answer at all in two rounds in a row ends the run, with a note: more of it would only
        take time.
Rule 4: either all contestants are asked for timelines or none is: asking costs them a little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trilith.errors import SetupError
from trilith.measure.bench import run_bench
from trilith.measure.bench_plan import BenchPlan
from trilith.measure.compare.answers import AnswerShape, changed, differing
from trilith.measure.compare.findings import compare_rounds, doubts, ratio_of, standings_of
from trilith.measure.compare.plan import FEWEST_BEFORE_STOP, ComparePlan, Contestant, fitting_round_s, order_of
from trilith.measure.compare.results import P50, THROUGHPUT, CompareReport, Round
from trilith.measure.conditions import read_conditions
from trilith.measure.histogram import DurationHistogram
from trilith.measure.load.outcome import LoadOutcome
from trilith.measure.results import LevelResult
from trilith.measure.statistics import RatioEstimate
from trilith.measure.subject import Subject, SubjectSpec, subject

_LOOK_S: Final = 1.0
_LONGEST_LOOK_S: Final = 10.0
_SILENT_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareProgress:
    """How far a comparison is.

    Attributes:
        round_number: from 1 on; 0 while the contestants are looked at.
        rounds: how many there will be at most.
        name: whose turn it is.
        elapsed_s: seconds since that began, its warm-up included.
        length_s: how long it takes in all.
        ratio: the throughput of the second beside the first so far, or at a fixed rate its median latency; or None.
    """

    round_number: int
    rounds: int
    name: str
    elapsed_s: float
    length_s: float
    ratio: RatioEstimate | None


OnProgress = Callable[[CompareProgress], None]


class Comparing:
    """One run of a `ComparePlan`: `look`, then `run`, then `report`."""

    def __init__(self, plan: ComparePlan, specs: Sequence[SubjectSpec], on_progress: OnProgress | None = None) -> None:
        """Only assigns.

        Args:
            plan: what to compare, and how long.
            specs: what to send to each contestant, in their order.
            on_progress: hears several times a second how far it is.
        """
        self._plan = plan
        self._specs = specs
        self._subjects: list[Subject] = []
        self._on_progress = on_progress
        self._conditions: dict[str, str | int | float] = {}
        self._answers: list[AnswerShape] = []
        self._rounds: list[Round] = []
        self._notes: list[str] = []
        self._with_timelines = False
        self._latencies = DurationHistogram()
        self._round_s = plan.round_s or 0.0
        self._complete = False

    def look(self) -> None:
        """Sends one request to each contestant. Blocks; not inside an event loop.

        Raises:
            SetupError: one is not there, or refuses the request; the message names it.
        """
        self._conditions = read_conditions()
        for contestant, spec in zip(self._plan.contestants, self._specs, strict=True):
            try:
                self._subjects.append(subject(spec))
            except SetupError as error:
                raise type(error)(f"{contestant.name}: {error.message}") from error
        self._answers = [_shape(found) for found in self._subjects]
        tell = [found.has_timeline for found in self._subjects]
        self._with_timelines = all(tell)
        if any(tell) and not self._with_timelines:
            mute = [each.name for each, tells in zip(self._plan.contestants, tell, strict=True) if not tells]
            self._notes.append(
                f"Where the difference is cannot be said: {' and '.join(mute)} {'does' if len(mute) == 1 else 'do'} not"
                " tell timelines."
            )
        names = [contestant.name for contestant in self._plan.contestants]
        self._notes.extend(differing(names, self._answers))

    async def run(self) -> None:
        """Measures until all rounds are done, or the interval is narrow enough, or SIGINT.

        Raises:
            SetupError: a contestant gives no answer even at first.
            ProcessLookupError: the process of a contestant is gone.
        """
        plan = self._plan
        if not await self._settle_length():
            return
        while len(self._rounds) < plan.rounds:
            if not await self._one_round():
                return
            silent = self._silent()
            if silent:
                self._notes.append(
                    f"Ended early: {silent} gave no good answer in {_SILENT_ROUNDS} rounds in a row. Its log says why."
                )
                break
            if self._narrow_enough():
                break
        await self._look_again()
        self._complete = True

    def report(self) -> CompareReport:
        """What is known so far."""
        rounds = tuple(self._rounds)
        standings = standings_of(self._plan, rounds)
        return CompareReport(
            conditions=self._conditions,
            concurrency=self._plan.concurrency,
            rate_per_s=self._plan.rate_per_s,
            round_s=self._round_s,
            standings=standings,
            comparisons=compare_rounds(self._plan, rounds, self._round_s),
            notes=(*self._notes, *doubts(rounds, standings), *self._missed()),
            rounds=rounds,
            interrupted=not self._complete,
        )

    # ---- rounds ----

    async def _settle_length(self) -> bool:
        """Warms every contestant up and chooses how long a round is; False when it was interrupted."""
        slowest_s = 0.0
        for index, contestant in enumerate(self._plan.contestants):
            length_s = min(_LONGEST_LOOK_S, self._plan.round_s or _LOOK_S)
            while True:
                level = await self._measure(index, 0, length_s)
                if level is None:
                    return False
                if level.latency.count or level.failed or length_s >= _LONGEST_LOOK_S:
                    break
                length_s = min(_LONGEST_LOOK_S, 3 * length_s)
            self._check_first(contestant, level)
            slowest_s = max(slowest_s, level.latency.mean_s)
        if self._plan.round_s is None:
            self._round_s = fitting_round_s(slowest_s, self._plan.concurrency, self._plan.rate_per_s)
        return True

    def _check_first(self, contestant: Contestant, level: LevelResult) -> None:
        if level.latency.count:
            return
        if level.failed:
            kinds = ", ".join(f"{count:,} x {kind}" for kind, count in level.errors.items())
            raise SetupError(
                f"{contestant.name}: one request was answered, and under a load of {self._plan.concurrency} none"
                f" ({kinds}); lower --concurrency, or raise what limits it"
            )
        raise SetupError(
            f"{contestant.name}: no request ended within {level.duration_s:g} s; give --round-duration several times"
            " what one request takes"
        )

    async def _one_round(self) -> bool:
        plan, number = self._plan, len(self._rounds)
        order = order_of(number, len(plan.contestants))
        levels: dict[int, LevelResult] = {}
        latencies: dict[int, DurationHistogram] = {}
        for index in order:
            level = await self._measure(index, number + 1, self._round_s)
            if level is None:
                return False
            levels[index], latencies[index] = level, self._latencies
        places = range(len(order))
        self._rounds.append(
            Round(
                order=order,
                levels=tuple(levels[index] for index in places),
                latencies=tuple(latencies[index] for index in places),
            )
        )
        return True

    async def _measure(self, index: int, round_number: int, duration_s: float) -> LevelResult | None:
        """One contestant for a while; None when it was interrupted."""
        report = await run_bench(
            self._bench_plan(index, duration_s, seed=round_number),
            sample_timelines=self._with_timelines,
            on_progress=self._progress_of(self._plan.contestants[index], round_number, duration_s),
            on_outcome=self._keep,
        )
        return None if report.interrupted or not report.levels else report.levels[0]

    def _keep(self, _: int, outcome: LoadOutcome) -> None:
        self._latencies = outcome.recorder.latencies

    def _bench_plan(self, index: int, duration_s: float, seed: int) -> BenchPlan:
        found = self._subjects[index]
        return BenchPlan(
            target=found.target,
            method=found.method,
            bodies=(),
            traffic=(found.traffic,),
            url=found.url,
            concurrency=(self._plan.concurrency,),
            rates_per_s=() if self._plan.rate_per_s is None else (self._plan.rate_per_s,),
            seed=seed,
            duration_s=duration_s,
            warmup_s=self._plan.warmup_s,
            timeout_s=self._plan.timeout_s,
            server_pid=self._plan.contestants[index].server_pid,
            body_names=found.bodies,
        )

    def _progress_of(
        self, contestant: Contestant, round_number: int, duration_s: float
    ) -> Callable[[object, float, int], None] | None:
        tell = self._on_progress
        if tell is None:
            return None
        progress = CompareProgress(
            round_number=round_number,
            rounds=self._plan.rounds,
            name=contestant.name,
            elapsed_s=0.0,
            length_s=self._plan.warmup_s + duration_s,
            ratio=self._known_so_far(),
        )
        return lambda _, elapsed_s, __: tell(replace(progress, elapsed_s=elapsed_s))

    def _known_so_far(self) -> RatioEstimate | None:
        return ratio_of(self._rounds, 1, THROUGHPUT if self._plan.rate_per_s is None else P50) if self._rounds else None

    # ---- when to stop, and what to say of it ----

    def _narrow_enough(self) -> bool:
        width = self._plan.until_width
        if width is None or len(self._rounds) < FEWEST_BEFORE_STOP:
            return False
        found = compare_rounds(self._plan, self._rounds, self._round_s)
        ratios = [comparison.ratios.get(comparison.decisive) for comparison in found]
        return all(ratio is not None and ratio.width <= width for ratio in ratios)

    def _missed(self) -> list[str]:
        width = self._plan.until_width
        if width is None or not self._complete or self._narrow_enough():
            return []
        return [
            f"After {len(self._rounds)} rounds the interval is still wider than the {width:.0%} that were asked for."
        ]

    def _silent(self) -> str:
        last = self._rounds[-_SILENT_ROUNDS:]
        if len(last) == _SILENT_ROUNDS:
            for index, contestant in enumerate(self._plan.contestants):
                if not any(each.levels[index].latency.count for each in last):
                    return contestant.name
        return ""

    async def _look_again(self) -> None:
        """Compares an answer with the first one. A contestant that is gone by now was told of as such."""
        names, first, after = [], [], []
        for contestant, spec, before in zip(self._plan.contestants, self._specs, self._answers, strict=True):
            try:
                found = await asyncio.to_thread(subject, spec)
            except SetupError as error:
                self._notes.append(f"{contestant.name} gives no good answer any more at the end: {error.message}.")
                continue
            after.append(_shape(found))
            names.append(contestant.name)
            first.append(before)
        self._notes.extend(changed(names, first, after))


def _shape(found: Subject) -> AnswerShape:
    return AnswerShape.of(found.status, found.answer, "gRPC" if found.method.startswith("gRPC") else "HTTP")
