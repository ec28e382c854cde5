"""The queue of one model: the batcher, shared between the loop that adds and the instances that take.

Rule 1: every touch of the batcher happens under one lock, and never across a call to others. It is held for a few
    microseconds; for some dozens when a batch size is chosen anew, whose work is bounded (`schedule/cost.py`, Rule 5).
    What only people read is computed outside, from a copy.
Rule 2: an instance is either idle and listed here, or it will ask again by itself. So nothing waits while an
    instance idles, and nobody is woken for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from trilith.core.clock import Clock
from trilith.errors import TrilithError
from trilith.runtime.instances import Instance, Rest, Taken
from trilith.runtime.schedule import BatchingConfig, BatchSizer, DynamicBatcher, LearnedCurve, QueueStatistics
from trilith.runtime.ticket import Ticket
from trilith.runtime.unexpected import unexpected


class ModelQueue:
    """Tickets that wait, and instances that idle.

    Args:
        config: limits of the batcher.
        name: for messages: `model 'ocr'`.
        clock: tells when a batch is formed.
        sizer: learns which batch sizes serve best, and chooses them; None: nothing is learned.
        on_expired: told, in the thread of whoever noticed, that tickets expired and `expired` should be called.
        on_broken: told the same way that forming a batch raised, and what callers are to be told.
    """

    def __init__(
        self,
        config: BatchingConfig,
        *,
        name: str,
        clock: Clock,
        on_expired: Callable[[], None],
        on_broken: Callable[[TrilithError], None],
        sizer: BatchSizer | None = None,
    ) -> None:
        self._sizer = sizer
        self._batcher: DynamicBatcher[Ticket] = DynamicBatcher(config, name=name, sizer=sizer)
        self._windowed = config.max_wait_s > 0.0
        self._clock = clock
        self._on_expired = on_expired
        self._on_broken = on_broken
        self.name = name
        self._lock = threading.Lock()
        self._idle: list[Instance] = []
        self._watchers = 0  # idle instances that will wake when the window closes

    def __len__(self) -> int:
        return len(self._batcher)

    def add(self, ticket: Ticket, now: float) -> None:
        """Lets the ticket wait, and wakes an idle instance if there is one for it.

        Raises:
            QueueFull, Draining: see `DynamicBatcher.add`.
        """
        with self._lock:
            self._batcher.add(ticket, now)
            instance = self._next_idle(now) if self._idle else None
        if instance is not None:
            instance.wake()

    def take(self, instance: Instance) -> Taken | Rest:
        """See `Work.take`."""
        another: Instance | None = None
        with self._lock:
            if instance in self._idle:
                self._unlist(instance)
            now = self._clock.now()
            batch: list[Ticket] = self._batcher.next_batch(now)
            found: Taken | Rest
            if batch:
                if self._idle and len(self._batcher):
                    another = self._next_idle(now)
                found = Taken(batch, now)
            else:
                found = self._list(instance, now)
            expired = self._batcher.has_expired
        if another is not None:
            another.wake()
        if expired:
            self._on_expired()
        return found

    def rest(self, instance: Instance) -> bool:
        """See `Work.rest`."""
        with self._lock:
            if len(self._batcher):
                return False
            self._idle.append(instance)
            return True

    def take_ahead(self) -> Taken | None:
        """A batch for an instance that still runs one, when no instance idles; it is not noted as idle itself."""
        with self._lock:
            if self._idle:
                return None
            now = self._clock.now()
            batch: list[Ticket] = self._batcher.next_batch(now)
        return Taken(batch, now) if batch else None

    def leave(self, instance: Instance) -> None:
        """Notes that the instance takes nothing until it asks again, and lets another one go for what waits."""
        another: Instance | None = None
        with self._lock:
            if instance in self._idle:
                self._unlist(instance)
            if self._idle and len(self._batcher):
                another = self._next_idle(self._clock.now())
        if another is not None:
            another.wake()

    def broke(self, error: Exception) -> None:
        """See `Work.broke`."""
        self._on_broken(unexpected(f"forming a batch of {self.name}", error))

    def observe(self, tickets: Sequence[Ticket], rows: int, seconds: float) -> None:
        """Learns that these tickets took an instance `seconds`."""
        if self._sizer is not None:
            with self._lock:
                self._sizer.observe(tickets[0].shape, rows, seconds)

    def learned(self) -> tuple[LearnedCurve, ...]:
        """What was learned of the cost of batches, by shape."""
        if self._sizer is None:
            return ()
        with self._lock:
            shapes = self._sizer.shapes()
        learned = []
        for shape in shapes:
            with self._lock:
                curve = self._sizer.curve(shape)
            if curve is not None:
                learned.append(self._sizer.learned(shape, curve))
        return tuple(learned)

    def cancel(self, ticket: Ticket) -> bool:
        """Takes a ticket back. False when it does not wait any more."""
        with self._lock:
            return self._batcher.cancel(ticket)

    def expired(self, now: float) -> list[Ticket]:
        """The tickets whose deadline passed while they waited, each given once."""
        with self._lock:
            return self._batcher.expire(now)

    def next_deadline(self) -> float | None:
        """The instant at which a ticket that waits will expire, or None."""
        with self._lock:
            return self._batcher.next_deadline()

    def drain(self) -> None:
        """Refuses what comes from now on, and lets what waits leave without a window."""
        with self._lock:
            self._batcher.drain()
            idle, self._idle, self._watchers = self._idle, [], 0
            for instance in idle:
                instance.watching = False
        for instance in idle:
            instance.wake()

    def clear(self) -> list[Ticket]:
        """Throws out what waits."""
        with self._lock:
            return self._batcher.clear()

    def statistics(self) -> QueueStatistics:
        """What waits now, and counts since the beginning."""
        with self._lock:
            return self._batcher.statistics()

    def _next_idle(self, now: float) -> Instance | None:
        """The idle instance to wake, if any should be. The last to fall asleep goes first: its caches are warm."""
        if self._windowed and self._watchers and not self._batcher.is_ready(now):
            return None
        instance = self._idle[-1]
        self._unlist(instance)
        return instance

    def _list(self, instance: Instance, now: float) -> Rest:
        self._idle.append(instance)
        window_end = self._batcher.next_window_end() if self._windowed else None
        if window_end is None:
            return Rest(None)
        instance.watching = True
        self._watchers += 1
        return Rest(max(window_end - now, 1e-6))

    def _unlist(self, instance: Instance) -> None:
        self._idle.remove(instance)
        if instance.watching:
            instance.watching = False
            self._watchers -= 1
