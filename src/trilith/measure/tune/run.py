"""A whole search: proposals become measurements become a verdict. Doer.

Rule: after each measurement the state is on disk. Whatever stops the search, the next run of it goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig
from trilith.measure.copies import CopyPlan
from trilith.measure.tune.decider import Tuner
from trilith.measure.tune.measuring import Bench, Check, Load
from trilith.measure.tune.objective import Objective, Observation
from trilith.measure.tune.proposal import Proposal
from trilith.measure.tune.space import Space
from trilith.measure.tune.state import Entry, SearchState, read_state, search_key, write_state
from trilith.measure.tune.verdict import Verdict, judge

_PART: Final = 5.0  # of an exhaustive sweep
_LEAST: Final = 8.0
_MOST: Final = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TunePlan:
    """What to search.

    Attributes:
        copy: how a copy is started, with settings that stay as they are.
        space: what may be turned.
        objective: what is wanted.
        load: what copies get.
        budget: measurements of the usual length; None for a fifth of those of a sweep, 8 to 40.
        check: for settings that may change what is answered.
        state: file in which it is kept what was measured; None for none.
        files: files and folders of the target; a search of other content is another search.
    """

    copy: CopyPlan
    space: Space
    objective: Objective
    load: Load
    budget: float | None = None
    check: Check | None = None
    state: Path | None = None
    files: tuple[Path, ...] = ()

    @property
    def measurements(self) -> float:
        """The budget."""
        return self.budget if self.budget is not None else min(_MOST, max(_LEAST, self.space.size / _PART))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One measurement, as it is told.

    Attributes:
        number: from 1; those of an earlier run count.
        proposal: what was measured.
        observation: what it brought; None while it runs.
        spent: of the budget, so far.
    """

    number: int
    proposal: Proposal
    observation: Observation | None
    spent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What came of it.

    Attributes:
        verdict: what was found so far.
        tuner: the search, for further questions.
        interrupted: whether it was stopped before its end.
        resumed: measurements that an earlier run had made.
    """

    verdict: Verdict
    tuner: Tuner
    interrupted: bool
    resumed: int


def tune(plan: TunePlan, on_step: Callable[[Step], None] | None = None) -> TuneResult:
    """Searches; call it in the main thread. Ctrl-C ends it with what was found so far, and leaves no copy behind.

    Args:
        plan: what to search.
        on_step: told before and after each measurement.

    Raises:
        InvalidConfig: a setting may change what is answered, and there is no check; or the state is of another search.
        SetupError: the target does not start, or does not answer the load.
    """
    changing = [knob.path for knob in plan.space.knobs if knob.changes_outputs]
    if changing and plan.check is None:
        raise InvalidConfig(
            f"{changing[0]}: may change what is answered, so it is tuned only with a check that the answers are right:"
            " --check 'COMMAND', which finds the copy's address in TRILITH_URL and ends with 0 when they are"
        )
    tuner = Tuner(plan.space, plan.objective, budget=plan.measurements)
    key = search_key(plan.copy, plan.space, plan.objective, plan.load, check=plan.check, files=plan.files)
    state = None if plan.state is None else read_state(plan.state, key)
    if state is None:
        state = SearchState(search=key, target=plan.copy.target, objective=str(plan.objective))
    for entry in state.entries:
        configuration = plan.space.configuration(entry.settings)
        if configuration is not None:
            tuner.observe(configuration, entry.observation, entry.part)
    resumed, interrupted = len(state.entries), False
    bench = Bench(plan.space, plan.copy, plan.load, plan.check)
    try:
        while (proposal := tuner.propose()) is not None:
            number = len(state.entries) + 1
            if on_step is not None:
                on_step(Step(number=number, proposal=proposal, observation=None, spent=tuner.spent))
            observation = bench.measure(proposal.configuration, proposal.share)
            tuner.observe(proposal.configuration, observation, proposal.part)
            settings = plan.space.settings(proposal.configuration)
            state.entries.append(Entry(settings=settings, part=proposal.part, observation=observation))
            if plan.state is not None:
                write_state(plan.state, state)
            if on_step is not None:
                on_step(Step(number=number, proposal=proposal, observation=observation, spent=tuner.spent))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bench.close()
    return TuneResult(verdict=judge(tuner), tuner=tuner, interrupted=interrupted, resumed=resumed)
