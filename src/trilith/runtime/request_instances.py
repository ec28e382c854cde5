"""Instances that live elsewhere: batches leave as requests, answers come back later, all on the loop's thread.

Rule 1: as `instances`, rule 1: an instance takes work when it falls free, so a batch is formed at the last moment.
Rule 2: the next batch leaves before the answers of the last are encoded: the model works while this process does.
Rule 3: a quick model is sent the next batches while it runs (`AheadWindow`), because the way there and back takes as
    long. Only what waits anyway goes ahead, never past an instance that idles, and no instance takes what is another's
    share.
Rule 4: an instance that died takes nothing until it is back. What waits goes on waiting, for it or for another one,
    and so does, ahead of all, what it had and did not begin (`GivenBack`).
Rule 5: whatever is raised here, what the instance holds is answered, and it goes on.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from trilith.core.clock import Clock, timer_delay_s
from trilith.core.tensor import Array
from trilith.errors import ReplicaLost, TrilithError
from trilith.runtime.backends.port import Answered, LifeReport, Outcome, RequestBackend, RequestBatch
from trilith.runtime.execution import Executed
from trilith.runtime.instances import Instance, Rest, Taken, Work
from trilith.runtime.schedule import AheadWindow
from trilith.runtime.signature import Offer
from trilith.runtime.ticket import Ticket
from trilith.runtime.unexpected import RETRY_S, unexpected
from trilith.runtime.validation import Admitted

MOST_GIVEN_BACK: Final = 3
_NO_SHARE: Final = 2  # so few batches an instance may always hold


class LeavableWork(Work, Protocol):
    """Where such instances take batches from."""

    def take_ahead(self) -> Taken | None:
        """A batch for an instance that still runs one."""
        ...

    def __len__(self) -> int:
        """How many requests wait."""
        ...

    def leave(self, instance: Instance) -> None:
        """Notes that the instance takes nothing until it asks again."""
        ...


class GivenBack:
    """Batches whose instance died before it began them, for whichever instance of the model is free first.

    Attributes:
        instances: all that may take them.
    """

    def __init__(self) -> None:
        self.instances: list[RequestInstance] = []
        self._batches: deque[Taken] = deque()

    def add(self, taken: Taken) -> bool:
        """Keeps a batch for others to take. False when it was here too often: something must be wrong with it."""
        if taken.given_back >= MOST_GIVEN_BACK:
            return False
        self._batches.append(taken._replace(given_back=taken.given_back + 1))
        for instance in self.instances:
            instance.wake()
        return True

    def __len__(self) -> int:
        return len(self._batches)

    def take(self) -> Taken | None:
        """The oldest; None when there is none."""
        return self._batches.popleft() if self._batches else None

    def clear(self) -> list[Taken]:
        """Throws all of them out."""
        found = list(self._batches)
        self._batches.clear()
        return found


class TicketBatch(RequestBatch):
    """The tickets of one batch as a backend sees them."""

    __slots__ = ("tickets",)

    def __init__(self, tickets: Sequence[Ticket], names: Sequence[str], every: tuple[str, ...]) -> None:
        super().__init__(
            [ticket.request for ticket in tickets],
            [_named(names, ticket.admitted) for ticket in tickets],
            [ticket.request.outputs or every for ticket in tickets],
        )
        self.tickets = tickets

    def is_awaited(self, at: int) -> bool:
        """Whether somebody still waits for the answer of request `at`."""
        return not self.tickets[at].done


class RequestInstance:
    """One instance, and the batch that it runs.

    Attributes:
        life: the last that was heard of it.
        pending: whether nothing was heard yet: it was loaded, and is being connected.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: LeavableWork,
        backend: RequestBackend,
        offer: Offer,
        clock: Clock,
        finish: Callable[[list[Executed]], None],
        on_life: Callable[[LifeReport], None],
        given_back: GivenBack,
        *,
        grows: bool,
    ) -> None:
        self._loop = loop
        self._work = work
        self._backend = backend
        self._offer = offer
        self._clock = clock
        self._finish = finish
        self._on_life = on_life
        self._given_back = given_back
        self._names = [spec.name for spec in offer.inputs]
        self._outputs = tuple(spec.name for spec in offer.outputs)
        self._timer: asyncio.TimerHandle | None = None
        self._held: dict[int, Taken] = {}  # the batches that it runs, by their identity
        self._window = AheadWindow(grows=grows)
        self._free_at = 0.0
        self._stopping = False
        self.life = LifeReport(alive=False)
        self.pending = True
        self.watching = False

    def start(self) -> None:
        """Connects the backend, which says when it is alive."""
        self._backend.attach(self._loop, self._offer, self._changed_life)

    def wake(self) -> None:
        """Says that there may be work. Only the loop's thread may call it."""
        self._loop.call_soon(self._run)

    def stop(self) -> None:
        """Says that there will be none any more."""
        self._stopping = True
        self._stop_timer()

    def join(self, timeout_s: float) -> bool:
        """There is nothing to wait for: closing the backend ends what runs."""
        return True

    def _changed_life(self, report: LifeReport) -> None:
        was_alive, self.life, self.pending = self.life.alive, report, False
        if report.alive and not was_alive:
            self.wake()
        elif was_alive and not report.alive:
            self._stop_timer()
            self._window.died(self._clock.now())
            self._work.leave(self)
        self._on_life(report)

    def _run(self) -> None:
        self._stop_timer()
        if self._stopping:
            return
        if not self.life.alive:
            self._work.leave(self)  # it was woken for something that another one may take
            return
        if not self._held:
            again = self._given_back.take()
            if again is not None:
                self._work.leave(self)  # it may be noted as idle
                self._begin_again(again)
                return
            found = self._take()
            if not isinstance(found, Taken):
                if found.timeout_s is not None:
                    self._timer = self._loop.call_later(timer_delay_s(found.timeout_s, 0.0), self._run)
                return
            self._begin(found)

    def _take(self) -> Taken | Rest:
        try:
            return self._work.take(self)
        except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the instance must go on
            self._work.broke(error)
            return Rest(RETRY_S)

    def _take_ahead(self) -> Taken | None:
        try:
            return self._work.take_ahead()
        except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the instance must go on
            self._work.broke(error)
            return None

    def _begin_again(self, taken: Taken) -> None:
        if all(ticket.done for ticket in taken.tickets):  # nobody waits for it any more
            self.end_unbegun(taken)
            self.wake()
        else:
            self._begin(taken)

    def _run_ahead(self) -> None:
        """Called when a batch has ended: what waits then waited for lack of an instance."""
        room = self._share() - len(self._held)
        while room > 0 and self._held and self._backend.has_room and not self._stopping:
            room -= 1
            again = self._given_back.take()
            if again is not None:
                self._begin_again(again)
                continue
            ahead = self._take_ahead()
            if ahead is None:
                return
            self._begin(ahead)

    def _share(self) -> int:
        """How many batches it may hold now."""
        size, every = self._window.size, self._given_back.instances
        if size <= _NO_SHARE or len(every) == 1:
            return size
        living = [len(instance._held) for instance in every if instance.life.alive]
        outstanding = len(self._work) + len(self._given_back) + sum(living)
        return min(size, max(_NO_SHARE, -(-outstanding // max(len(living), 1))))

    def _begin(self, taken: Taken) -> None:
        self._held[id(taken)] = taken
        now = self._clock.now()
        done = functools.partial(self._done, taken, now)
        try:
            self._backend.begin(TicketBatch(taken.tickets, self._names, self._outputs), done)
        except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the requests must be answered
            told = unexpected(f"sending a batch of {self._work.name}", error)
            failure = Outcome([told] * len(taken.tickets), now, now)
            self._loop.call_soon(done, failure)  # not now: `_run_ahead` would begin the next within this one

    def _done(self, taken: Taken, sent_at: float, outcome: Outcome) -> None:
        if self._held.pop(id(taken), None) is None:
            return  # it was told already
        if not outcome.begun:
            if self._stopping or self.life.over or not self._given_back.add(taken):
                self.end_unbegun(taken)
            return
        begun_at = sent_at
        if sent_at < self._free_at:  # what was sent ahead waited until the one before it had ended
            begun_at = self._free_at
            taken = Taken(taken.tickets, begun_at)
        self._free_at = outcome.finished_at
        self._window.observe(outcome.finished_at - outcome.started_at, outcome.finished_at)
        self._run()
        self._run_ahead()
        self._finish(self._parts(taken, begun_at, outcome))

    def _parts(self, taken: Taken, begun_at: float, outcome: Outcome) -> list[Executed]:
        now = self._clock.now()
        try:
            return executed_parts(taken, begun_at, outcome, now)
        except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the requests must be answered
            told = unexpected(f"reading the answers of {self._work.name}", error)
            return executed_parts(taken, begun_at, Outcome([told] * len(taken.tickets), now, now), now)

    def end_unbegun(self, taken: Taken) -> None:
        """Ends a batch that no instance will begin any more."""
        now = self._clock.now()
        error = ReplicaLost(self.life.reason or "the model was stopped before the request could run")
        outcome = Outcome([error] * len(taken.tickets), now, now)
        self._finish(executed_parts(taken, now, outcome, now))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def executed_parts(taken: Taken, begun_at: float, outcome: Outcome, now: float) -> list[Executed]:
    """A batch's outcome: one part for the requests that succeeded together, and one for each that failed."""
    answers = outcome.answers
    if len(answers) == 1 == len(taken.tickets) and isinstance(answers[0], Answered):  # nearly each one without batching
        alone = _part(taken.tickets, taken, begun_at, outcome, now)
        alone.outputs = [answers[0].outputs]
        alone.parameters = [answers[0].parameters]
        return [alone]
    parts: list[Executed] = []
    answered: list[tuple[Ticket, Answered]] = []
    for ticket, answer in zip(taken.tickets, answers, strict=True):
        if isinstance(answer, TrilithError):
            failed = _part([ticket], taken, begun_at, outcome, now)
            failed.error = answer
            parts.append(failed)
        else:
            answered.append((ticket, answer))
    if answered:
        part = _part([ticket for ticket, _ in answered], taken, begun_at, outcome, now)
        part.outputs = [answer.outputs for _, answer in answered]
        part.parameters = [answer.parameters for _, answer in answered]
        parts.append(part)
    return parts


def _part(tickets: Sequence[Ticket], taken: Taken, begun_at: float, outcome: Outcome, now: float) -> Executed:
    part = Executed(tickets, sum([ticket.rows for ticket in tickets]), taken.batched_at, begun_at)
    part.input_at = max(begun_at, outcome.started_at)
    part.infer_at = part.freed_at = max(part.input_at, outcome.finished_at)
    part.output_at = max(part.infer_at, now)
    return part


def _named(every: Sequence[str], admitted: Admitted) -> dict[str, Array]:
    names = every if admitted.names is None else admitted.names  # no names are names: all may be left out
    return dict(zip(names, admitted.arrays, strict=True))
