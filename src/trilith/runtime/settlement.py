"""How the tickets of one model version end, and what is counted of it.

Rule 1: on the loop's thread alone.
Rule 2: every ticket ends exactly once: answered, failed or taken back. `outstanding` counts those that did not yet
    leave the queue or the instance.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from trilith.core.clock import Clock
from trilith.core.request import InferResponse, Parameter
from trilith.core.timeline import BATCHED, INFER, INPUT, OUTPUT, QUEUED, STARTED
from trilith.errors import Bug, TrilithError
from trilith.runtime.execution import Executed
from trilith.runtime.schedule import ArrivalOrder, DeadlineHeap, Occupancy
from trilith.runtime.statistics import StatisticsCollector
from trilith.runtime.ticket import Ticket
from trilith.runtime.unexpected import unexpected

_FLOOR: Final = 1


class Settlement:
    """Settles the tickets of one version.

    Args:
        name, version: of the model.
        clock: tells the time.
        loop: the loop that calls everything here.
        statistics: where it is counted.
        preserve_order: answers leave in the order in which their requests came, within a priority.
        held: whether a window may hold back what waits.
        observe: told of each executed batch: its tickets, its rows, and the seconds that it occupied its instance; or
            None.

    Attributes:
        outstanding: tickets that did not yet leave the queue or the instance.
        deadlines: of the tickets that must be answered by some instant.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        statistics: StatisticsCollector,
        preserve_order: bool,
        held: bool,
        observe: Callable[[Sequence[Ticket], int, float], None] | None,
    ) -> None:
        self._name = name
        self._version = version
        self._clock = clock
        self._loop = loop
        self._statistics = statistics
        self._observe = observe
        self._occupancy = Occupancy(held=held)
        self._order: ArrivalOrder[Ticket, InferResponse | TrilithError] | None = (
            ArrivalOrder() if preserve_order else None
        )
        self._idle: asyncio.Future[None] | None = None  # resolved when nothing is outstanding any more
        self._timeline_name = f"model {name}"
        self.outstanding = 0
        self.deadlines: DeadlineHeap[Ticket] = DeadlineHeap()

    def admitted(self, ticket: Ticket) -> None:
        """The ticket waits now."""
        self.outstanding += 1
        if self._order is not None:
            self._order.enter(ticket, ticket.priority)

    def taken_back(self, ticket: Ticket, *, waited: bool) -> None:
        """Its caller does not want the answer any more; `waited`: no instance has it."""
        self.close(ticket)
        self._statistics.cancelled += 1
        if waited:
            self.leave(1)
        self.let_go(ticket)

    def close(self, ticket: Ticket) -> None:
        """The ticket has its outcome."""
        ticket.done = True
        if ticket.answer_by is not None:
            self.deadlines.forget(ticket.watched_as)

    def let_go(self, ticket: Ticket) -> None:
        """Lets those go whose answers waited for that of the ticket."""
        if self._order is not None:
            self._release(self._order.leave(ticket, ticket.priority))

    def _release(self, outcomes: Sequence[tuple[Ticket, InferResponse | TrilithError]]) -> None:
        for ticket, outcome in outcomes:
            if isinstance(outcome, TrilithError):
                self.fail(ticket, outcome)
                continue
            self.close(ticket)
            seconds = self._clock.now() - ticket.enqueued_at
            self._statistics.succeeded(1, seconds)
            self._statistics.distributions.total.observe(seconds)
            self._tell(ticket, outcome)

    def leave(self, count: int) -> None:
        """So many left the queue, or their instance."""
        self.outstanding -= count
        if self.outstanding == 0 and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def fail(self, ticket: Ticket, error: TrilithError) -> None:
        """Ends a ticket that has no outcome yet with an error."""
        now = self._clock.now()
        self.close(ticket)
        self._statistics.failed(now - ticket.enqueued_at)
        if ticket.context is not None:
            ticket.context.timeline.child(self._timeline_name, _FLOOR).mark(QUEUED, ticket.enqueued_at)
        self._tell(ticket, error)
        self.let_go(ticket)

    def _tell(self, ticket: Ticket, outcome: InferResponse | TrilithError) -> None:
        try:
            ticket.on_done(outcome)
        except Exception as error:  # noqa: BLE001 - the others of the batch must get their answers
            self._loop.call_exception_handler(
                {"message": f"the callback of a request to model '{self._name}' raised", "exception": error}
            )

    def finish(self, instance: int, executed: list[Executed]) -> None:
        """An instance has executed a batch, in one or several parts."""
        last = executed[-1]
        freed_at = last.output_at if last.freed_at is None else last.freed_at
        self._statistics.distributions.busy(instance, freed_at - executed[0].started_at)
        if executed[0].retried:
            self._statistics.retries += 1
        for part in executed:
            try:
                if self._observe is not None:
                    self._learn(instance, part)
                if part.outputs is None or part.error is not None:
                    self._finish_failed(part, part.error)
                else:
                    self._finish_succeeded(part)
            except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: each ticket must end
                self._finish_failed(part, unexpected(f"answering requests to model '{self._name}'", error))
            finally:
                self.leave(len(part.tickets))

    def _learn(self, instance: int, part: Executed) -> None:
        seconds = self._occupancy.seconds(
            instance,
            enqueued_at=part.tickets[0].enqueued_at,
            batched_at=part.batched_at,
            ended_at=part.output_at,
        )
        if self._observe is not None and part.outputs is not None and part.error is None:
            self._observe(part.tickets, part.rows, seconds)

    def _finish_failed(self, part: Executed, error: TrilithError | None) -> None:
        error = error or Bug("the execution gave neither outputs nor an error")
        for ticket in part.tickets:
            if ticket.done:
                continue
            if self._order is not None:
                self._release(self._order.finish(ticket, ticket.priority, error))
            else:
                self.fail(ticket, error)

    def _finish_succeeded(self, part: Executed) -> None:
        tickets, version, end = part.tickets, self._version, part.output_at
        awaited = [ticket.enqueued_at for ticket in tickets if not ticket.done]
        self._statistics.executed(
            requests=len(awaited),
            rows=part.rows,
            queue_s=len(awaited) * part.batched_at - sum(awaited),
            input_s=part.input_at - part.started_at,
            infer_s=part.infer_at - part.input_at,
            output_s=end - part.infer_at,
        )
        stamps = [
            (BATCHED, part.batched_at),
            (STARTED, part.started_at),
            (INPUT, part.input_at),
            (INFER, part.infer_at),
            (OUTPUT, end),
        ]
        distributions = self._statistics.distributions
        priority = tickets[0].priority  # nearly always that of all of them
        queue = distributions.queue(priority)
        answered, seconds = 0, 0.0
        parameters: Iterable[dict[str, Parameter]] = part.parameters or itertools.repeat({})
        for ticket, outputs, said in zip(tickets, part.outputs or (), parameters, strict=False):
            if ticket.done:
                continue
            enqueued_at = ticket.enqueued_at
            if ticket.priority != priority:
                priority = ticket.priority
                queue = distributions.queue(priority)
            queue.observe(part.batched_at - enqueued_at)
            if ticket.context is not None:
                timeline = ticket.context.timeline.child(self._timeline_name, _FLOOR)
                timeline.stamps = [(QUEUED, enqueued_at), *stamps]
            response = InferResponse(
                model=self._name, version=version, outputs=outputs, id=ticket.request.id, parameters=dict(said)
            )
            if self._order is not None:
                self._release(self._order.finish(ticket, ticket.priority, response))
                continue
            self.close(ticket)
            answered += 1
            seconds += end - enqueued_at
            distributions.total.observe(end - enqueued_at)
            self._tell(ticket, response)
        self._statistics.succeeded(answered, seconds)

    async def settled(self, timeout_s: float) -> bool:
        """Waits until nothing is outstanding. False when time ran out."""
        if self.outstanding == 0:
            return True
        self._idle = self._loop.create_future()
        try:
            await asyncio.wait_for(self._idle, timeout_s)
        except TimeoutError:
            return False
        finally:
            self._idle = None
        return True
