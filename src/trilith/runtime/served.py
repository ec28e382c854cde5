"""One loaded model version at work: its queue, its instances, its counts.

Rule 1: everything here runs on the loop's thread, but what `instances` and `queue` say of themselves.
Rule 2: how tickets end is the `Settlement`'s; this file lets them in, watches the time, and runs the instances.
Rule 3: a deadline ends the caller's waiting at once, even while the model runs; the late result is dropped.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from trilith.core.aside import aside
from trilith.core.clock import Clock, timer_delay_s
from trilith.core.context import Context
from trilith.core.request import InferRequest
from trilith.errors import DeadlineExceeded, Draining, NoReadyReplica, QueueTimeout, TrilithError
from trilith.runtime.backends.port import Backend, LifeReport, RequestBackend
from trilith.runtime.batching import batching_config, learns
from trilith.runtime.collation import Collation
from trilith.runtime.execution import Executed, Execution
from trilith.runtime.instances import InlineInstance, Instance, InstanceThread
from trilith.runtime.loading import close_all
from trilith.runtime.outbox import Outbox
from trilith.runtime.queue import ModelQueue
from trilith.runtime.request_instances import GivenBack, RequestInstance
from trilith.runtime.schedule import BatchSizer, LearnedCurve, TimeoutAction
from trilith.runtime.settlement import Settlement
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec
from trilith.runtime.statistics import ModelStatistics, StatisticsCollector
from trilith.runtime.ticket import OnDone, Ticket
from trilith.runtime.validation import Validator

_log: Final = logging.getLogger("trilith.runtime")
_FOREVER_S: Final = 3600.0
_CLOSE_TIMEOUT_S: Final = 60.0  # a Python model has 30 s to finalize


class ServedModel:
    """Takes requests for one model version.

    Args:
        version: the version.
        spec: its configuration.
        offer: what clients may send and get.
        backends: loaded; one for all instances, or one for each.
        clock: tells the time.
        loop: the loop that calls everything here.
        outbox: the way from threads to that loop.
        statistics: where it is counted; what served the version before may count there too, until it has ended.
        on_life: told when the last living instance dies, when one lives again, and when none ever will.

    Attributes:
        collector: where it is counted.
    """

    def __init__(
        self,
        *,
        version: str,
        spec: ModelSpec,
        offer: Offer,
        backends: Sequence[Backend | RequestBackend],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        outbox: Outbox,
        statistics: StatisticsCollector,
        on_life: Callable[[LifeReport], None] = lambda _: None,
    ) -> None:
        self.name = spec.name
        self.version = version
        self._spec = spec
        self._offer = offer
        self._backends = list(backends)
        self._local = [backend for backend in backends if not isinstance(backend, RequestBackend)]
        self._on_life = on_life
        self._remote: list[RequestInstance] = []
        self._given_back = GivenBack()
        self._clock = clock
        self._loop = loop
        self._outbox = outbox
        self._validator = Validator(spec.name, offer)
        self._alone = not spec.queue.batching
        policies = (spec.queue.policy, *spec.queue.level_policies.values())
        self._bounds_waiting = any(policy.timeout_s is not None for policy in policies)
        adaptive = learns(spec, offer, backends[0])
        self._queue = ModelQueue(
            batching_config(spec, offer),
            name=f"model '{spec.name}'",
            clock=clock,
            on_expired=functools.partial(outbox.post, self._expire),
            on_broken=lambda error: outbox.post(functools.partial(self._end_waiting, error)),
            sizer=BatchSizer(offer.max_batch_size, max_latency_s=spec.queue.max_latency_s) if adaptive else None,
        )
        self._statistics = self.collector = statistics
        self._execution = Execution(
            spec.name,
            offer,
            pure=spec.pure,
            clock=clock,
            collation=Collation(spec, offer) if Collation.needed(spec) else None,
        )
        self._instances: list[Instance] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._settlement = Settlement(
            spec.name,
            version,
            clock=clock,
            loop=loop,
            statistics=self._statistics,
            preserve_order=spec.queue.preserve_ordering,
            held=spec.queue.max_wait_s > 0.0,
            observe=self._queue.observe if adaptive else None,
        )
        self._drained = False
        self._timed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def start(self) -> None:
        """Starts the instances.

        Raises:
            Exception: one cannot be started. What could is ended by `stop`.
        """
        self._remote = [
            RequestInstance(
                self._loop,
                self._queue,
                backend,
                self._offer,
                self._clock,
                functools.partial(self._settlement.finish, at),
                self._changed_life,
                self._given_back,
                grows=not self._alone,
            )
            for at, backend in enumerate(self._backends)
            if isinstance(backend, RequestBackend)
        ]
        if self._remote:
            self._given_back.instances = self._remote
            self._instances = list(self._remote)
            for instance in self._remote:
                instance.start()
            return
        backends = self._local
        if len(backends) == 1 and backends[0].inline:
            finish = functools.partial(self._settlement.finish, 0)
            grows = self._offer.max_batch_size > 1 and not self._alone
            self._instances = [
                InlineInstance(self._loop, self._queue, self._execution, backends[0], finish, grows=grows)
            ]
            self._instances[0].wake()
            return
        for _ in range(self._spec.instances.count):
            self._add_instance()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self._settlement.outstanding == 0

    @property
    def resizable(self) -> bool:
        """Whether the number of its instances can be changed while it serves."""
        return bool(self._local)

    def missing_backends(self, count: int) -> int:
        """How many more backends it takes to run `count` instances."""
        shared = len(self._local) == 1 and self._local[0].concurrent and self._spec.instances.share
        return 0 if shared or self._local[0].inline else max(0, count - len(self._local))

    def resize(self, spec: ModelSpec, more: Sequence[Backend]) -> ModelSpec:
        """Runs as many instances as `spec` says from now on. What runs ends where it began.

        Args:
            spec: the configuration, which differs from the present one in its instances alone.
            more: as many loaded backends as `missing_backends` said. They are this one's from now on.

        Returns:
            the configuration until now.

        Raises:
            RuntimeError: the system has no thread for an instance. Then there are as many as before.
        """
        before, count = self._spec, len(self._instances)
        self._spec = spec
        self._backends.extend(more)
        self._local.extend(more)
        if self._local[0].inline:
            return before
        try:
            while len(self._instances) < spec.instances.count:
                self._add_instance()
        except RuntimeError:
            self._spec = before
            for _ in range(min(len(more), len(self._local) - len(self._instances))):
                self._let_go(None)
            self._shrink(count)
            raise
        self._shrink(spec.instances.count)
        return before

    def _shrink(self, count: int) -> None:
        while len(self._instances) > count:
            instance = self._instances.pop()
            instance.stop()
            self._let_go(instance)

    def _let_go(self, instance: Instance | None) -> None:
        """Waits aside until the instance has ended, and closes the last backend if no other instance has it."""
        own = self._local.pop() if len(self._local) > max(1, len(self._instances)) else None
        if own is not None:
            self._backends.remove(own)
        task = self._loop.create_task(asyncio.to_thread(_end, instance, own))
        self._leaving.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("an instance of model '%s' cannot be ended", self.name, exc_info=error)

    def _add_instance(self) -> None:
        at = len(self._instances)
        thread = InstanceThread(
            f"trilith {self.name}/{self.version} #{at}",
            self._queue,
            self._execution,
            self._local[at % len(self._local)],
            functools.partial(self._post, at),
        )
        thread.start()
        self._instances.append(thread)

    def processes(self) -> tuple[int, ...]:
        """The process of each instance that has one of its own, by instance; 0 for one that is being started."""
        return tuple(backend.pid for backend in self._backends if isinstance(backend, RequestBackend))

    def submit(self, request: InferRequest, context: Context | None, on_done: OnDone) -> Ticket:
        """Checks the request and lets it wait.

        Raises:
            InvalidInput: it does not fit the model.
            QueueFull, Draining: it must not wait.
            DeadlineExceeded: it came too late.
        """
        admitted = self._validator.admit(request)
        if self._remote and self._remote[0].life.over and all(instance.life.over for instance in self._remote):
            raise NoReadyReplica(self._remote[0].life.reason)
        now = self._clock.now()
        priority = self._priority(request.priority)
        deadline = self._deadline(context, now)
        ticket = Ticket(
            self,
            request,
            admitted,
            context,
            on_done,
            priority=priority,
            deadline=deadline,
            alone=self._alone,
        )
        if request.timeout_us or self._bounds_waiting:
            self._bound_waiting(ticket, now)
        try:
            if deadline is not None and deadline <= now:
                self._statistics.expired += 1
                raise self._too_late()
            self._queue.add(ticket, now)
        except TrilithError as error:
            self._statistics.refused += not isinstance(error, DeadlineExceeded)
            self._statistics.failed(0.0)
            raise
        self._settlement.admitted(ticket)
        if ticket.deadline is not None:
            self._watch(ticket, ticket.deadline, now)
        return ticket

    @property
    def asks_ready(self) -> bool:
        """Whether the model has a say in whether it is ready."""
        return any(backend.asks_ready for backend in self._backends if isinstance(backend, RequestBackend))

    async def says_ready(self) -> bool:
        """Whether at least one living instance says that it is ready."""
        living = [
            backend.is_ready()
            for backend, instance in zip(self._backends, self._remote, strict=False)
            if (instance.life.alive or instance.pending) and isinstance(backend, RequestBackend)
        ]
        return any(await asyncio.gather(*living))

    def cancel(self, ticket: Ticket) -> None:
        """See `Ticket.cancel`."""
        self._settlement.taken_back(ticket, waited=self._queue.cancel(ticket))

    def statistics(self) -> ModelStatistics:
        """What this version has done, with what was counted before it was loaded again."""
        waiting = self._queue.statistics()
        return self._statistics.snapshot(
            waiting,
            max(0, self._settlement.outstanding - waiting.waiting_items),
            alive=sum(instance.life.alive for instance in self._remote) if self._remote else len(self._instances),
            restarts=self._restarts(),
        )

    def learned(self) -> tuple[LearnedCurve, ...]:
        """What was learned of the cost of batches, by shape; the shape used last stands last."""
        return self._queue.learned()

    def _restarts(self) -> Counter[str]:
        restarts: Counter[str] = Counter()
        for instance in self._remote:
            restarts.update(instance.life.restarts)
        return restarts

    async def drain(self, timeout_s: float) -> bool:
        """Refuses new requests, and finishes those that wait and run. False when time ran out.

        What still waits then is failed with `Draining`; what runs cannot be stopped.
        """
        self._queue.drain()
        if not self._drained:
            self._drained = True
            self._statistics.restarts += self._restarts()
        if await self._settlement.settled(timeout_s):
            return True
        self._end_waiting(Draining(f"model '{self.name}' was stopped before the request could run"))
        return await self._settlement.settled(0.0)

    async def stop(self, timeout_s: float) -> bool:
        """Ends the instances and closes the backends. False when an instance still runs; its backend stays open."""
        for instance in self._instances:
            instance.stop()
        self._end_unbegun()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = list(self._leaving)
        name = f"trilith stop {self.name}/{self.version}"
        ended = await aside(self._join, name=name, timeout_s=timeout_s)
        if left:
            await asyncio.wait(left, timeout=timeout_s)
        # What still runs keeps its backend until it ends, if it ever does; a backend may hang while it is freed, too.
        ended = await aside(self._close, name=name, timeout_s=_CLOSE_TIMEOUT_S if ended else 0.0) and ended
        if not ended:
            _log.warning("model '%s' version %s still runs and was left behind", self.name, self.version)
        return ended

    def _join(self) -> None:
        for instance in self._instances:
            while not instance.join(_FOREVER_S):
                pass

    def _close(self) -> None:
        self._join()
        close_all(self._backends)

    def _changed_life(self, report: LifeReport) -> None:
        """One instance died or came back: news when it was the last, or the first."""
        if report.alive:
            if sum(instance.life.alive for instance in self._remote) == 1:
                self._on_life(report)
        elif not any(instance.life.alive or instance.pending for instance in self._remote):
            over = all(instance.life.over for instance in self._remote)
            self._on_life(report if report.over == over else replace(report, over=over))
            if over:
                self._end_waiting(NoReadyReplica(report.reason))
                self._end_unbegun()

    def tell_death(self) -> None:
        """Says it again if no instance lives any more: they may have died before it mattered to anybody."""
        if self._remote and not any(instance.life.alive or instance.pending for instance in self._remote):
            self._changed_life(self._remote[0].life)

    def _end_waiting(self, error: TrilithError) -> None:
        for ticket in self._queue.clear():
            self._settlement.leave(1)
            if not ticket.done:
                self._settlement.fail(ticket, error)

    def _end_unbegun(self) -> None:
        for taken in self._given_back.clear():
            self._remote[0].end_unbegun(taken)

    # -- one ticket --------------------------------------------------------------------------------------------------

    def _priority(self, asked: int) -> int:
        config = self._spec.queue
        return asked if 1 <= asked <= config.priority_levels else config.default_priority

    def _deadline(self, context: Context | None, now: float) -> float | None:
        """The earlier of the caller's deadline and the model's time limit."""
        deadline = None if context is None else context.deadline
        limit_s = self._spec.queue.timeout_s
        if limit_s is None:
            return deadline
        return now + limit_s if deadline is None else min(deadline, now + limit_s)

    def _bound_waiting(self, ticket: Ticket, now: float) -> None:
        """Lets the ticket wait no longer than its own `timeout` and its priority's policy allow."""
        queue = self._spec.queue
        policy = queue.level_policies.get(ticket.priority, queue.policy)
        waits_s = policy.waits_at_most(ticket.request.timeout_us)
        if waits_s is not None:
            ticket.wait_until(now + waits_s, delays=policy.timeout_action is TimeoutAction.DELAY)

    def _too_late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"Request timeout expired: model '{self.name}' gave no answer in the time allowed")

    def _waited_too_long(self, ticket: Ticket, now: float) -> TrilithError:
        if ticket.answer_by is not None and ticket.answer_by <= now:
            return self._too_late()
        waited_ms = (now - ticket.enqueued_at) * 1e3
        return QueueTimeout(
            f"Request timeout expired: it waited {waited_ms:.0f} ms for model '{self.name}', the longest it may"
        )

    def _post(self, instance: int, executed: list[Executed]) -> None:
        """Called in an instance's thread."""
        self._outbox.post(functools.partial(self._settlement.finish, instance, executed))

    # -- time --------------------------------------------------------------------------------------------------------

    def _watch(self, ticket: Ticket, ends_at: float, now: float) -> None:
        """Sees to it that the ticket ends at that instant, if it still waits or must be answered by then."""
        if ticket.answer_by is not None:
            self._timed = ticket.watched_as = self._timed + 1
            self._settlement.deadlines.push(ticket.answer_by, ticket.watched_as, ticket)
        if self._timer is None or ends_at < self._timer_at:
            self._arm(ends_at, now)

    def _arm(self, deadline: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(timer_delay_s(deadline, now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._expire()
        finally:  # whatever went wrong with one ticket, the others' deadlines hold
            coming = [
                at for at in (self._settlement.deadlines.next_deadline(), self._queue.next_deadline()) if at is not None
            ]
            if coming:
                self._arm(min(coming), self._clock.now())

    def _expire(self) -> None:
        """Ends the tickets whose deadline passed: those that wait leave the queue, those that run are let go."""
        now = self._clock.now()
        left = self._queue.expired(now)
        for ticket in left:
            if not ticket.done:
                self._statistics.expired += 1
                self._settlement.fail(ticket, self._waited_too_long(ticket, now))
        while (running := self._settlement.deadlines.pop_due(now)) is not None:
            self._statistics.expired += 1
            self._settlement.fail(running, self._too_late())
        if left:
            self._settlement.leave(len(left))


def _end(instance: Instance | None, backend: Backend | None) -> None:
    """Waits for an instance that is not needed any more, and closes what it had for itself."""
    while instance is not None and not instance.join(_FOREVER_S):
        pass
    if backend is not None:
        close_all([backend])
