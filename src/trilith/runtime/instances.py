"""Instances: each runs one batch after the other, in a thread of its own or on the loop.

Rule 1: an instance takes work, it is not given any. It asks the queue when it falls free, so that a batch is formed at
    the last moment and a busy queue never waits for the loop.
Rule 2: what it executed is posted to the loop's thread; many results cross in one wake-up.
Rule 3: threads are no daemons, because a daemon dies inside native code when the program ends. They end when their
    model is unloaded; in a program that ends without doing so, when its main thread has ended.
Rule 4: whatever is raised here, what the instance holds is answered, and it goes on.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from trilith.core.clock import timer_delay_s
from trilith.runtime.backends.port import Backend
from trilith.runtime.execution import Executed, Execution, failed_batch
from trilith.runtime.main_end import main_end
from trilith.runtime.ticket import Ticket
from trilith.runtime.unexpected import RETRY_S, unexpected

_IN_A_TURN: Final = 16  # runs of an inline instance that no batch can join


class Taken(NamedTuple):
    """A batch that left the queue.

    Attributes:
        tickets: one or more.
        batched_at: the instant at which the batch was formed, in seconds.
        given_back: how often an instance died before it began it.
    """

    tickets: Sequence[Ticket]
    batched_at: float
    given_back: int = 0


class Rest(NamedTuple):
    """There is no batch now, and the instance is noted as idle.

    Attributes:
        timeout_s: after so many seconds it asks again; None: when it is woken.
    """

    timeout_s: float | None


class Work(Protocol):
    """Where instances take batches from.

    Attributes:
        name: whose they are, for messages: `model 'ocr'`.
    """

    name: str

    def take(self, instance: Instance) -> Taken | Rest:
        """A batch; without one the instance is noted as idle."""
        ...

    def rest(self, instance: Instance) -> bool:
        """Notes the instance as idle if nothing waits. False when something does."""
        ...

    def leave(self, instance: Instance) -> None:
        """Notes that the instance has ended and takes nothing any more."""
        ...

    def broke(self, error: Exception) -> None:
        """Taking raised: what waits is answered with an error, for it could wait for ever. From any thread."""
        ...


class Instance(Protocol):
    """Something that runs batches."""

    watching: bool

    def wake(self) -> None:
        """Says that there may be work. Any thread may call it."""
        ...

    def stop(self) -> None:
        """Says that there will be none any more."""
        ...

    def join(self, timeout_s: float) -> bool:
        """Waits until it has ended. False when it has not in time."""
        ...


class InstanceThread:
    """An instance that runs in a thread of its own.

    Args:
        name: of the thread: `trilith ocr/1 #0`.
        work: where batches come from.
        execution: how they are run.
        backend: what runs them.
        post: takes what was executed; called in this thread.
    """

    def __init__(
        self, name: str, work: Work, execution: Execution, backend: Backend, post: Callable[[list[Executed]], None]
    ) -> None:
        self._work = work
        self._execution = execution
        self._backend = backend
        self._post = post
        self._inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=False)
        self.watching = False

    def start(self) -> None:
        """Starts the thread.

        Raises:
            RuntimeError: the system has none for it.
        """
        main_end.tell(self)
        self._thread.start()

    def wake(self) -> None:
        """Says that there may be work. Any thread may call it."""
        self._inbox.put(None)

    def stop(self) -> None:
        """Says that there will be none any more."""
        self._stopping = True
        self._inbox.put(None)

    def join(self, timeout_s: float) -> bool:
        """Waits until the thread has ended. False when it has not in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._enter()
        while True:
            found = self._take()
            if isinstance(found, Taken):
                self._post(_executed(self._execution, self._backend, found))
                del found  # the requests must not live as long as this thread idles
                continue
            if self._stopping or not threading.main_thread().is_alive():
                self._work.leave(self)
                return
            try:
                self._inbox.get(timeout=found.timeout_s)
            except queue.Empty:
                continue

    def _enter(self) -> None:
        try:
            self._backend.enter_thread()
        except Exception as error:  # noqa: BLE001 - a backend's: its batches say what is wrong, if anything is
            unexpected(f"preparing a thread of {self._work.name}", error)

    def _take(self) -> Taken | Rest:
        try:
            return self._work.take(self)
        except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the thread must go on
            self._work.broke(error)
            return Rest(RETRY_S)


class InlineInstance:
    """An instance that runs on the loop's thread, for backends that take only microseconds.

    Batches form at the end of the loop's turn, out of all that came in during it.

    Args:
        loop: the loop.
        work: where batches come from.
        execution: how they are run.
        backend: what runs them.
        finish: takes what was executed.
        grows: whether a batch may grow while it waits. Then one is run in a turn of the loop, which has sockets to read
            meanwhile; otherwise several, because a turn costs more than such a run.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Work,
        execution: Execution,
        backend: Backend,
        finish: Callable[[list[Executed]], None],
        *,
        grows: bool,
    ) -> None:
        self._loop = loop
        self._work = work
        self._execution = execution
        self._backend = backend
        self._finish = finish
        self._in_a_turn = 1 if grows else _IN_A_TURN
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self.watching = False

    def wake(self) -> None:
        """Says that there may be work. Only the loop's thread may call it."""
        self._loop.call_soon(self._run)

    def stop(self) -> None:
        """Says that there will be none any more."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()

    def join(self, timeout_s: float) -> bool:
        """There is nothing to wait for."""
        return True

    def _run(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stopping:
            return
        for _ in range(self._in_a_turn):
            found = self._take()
            if not isinstance(found, Taken):
                if found.timeout_s is not None:
                    self._timer = self._loop.call_later(timer_delay_s(found.timeout_s, 0.0), self._run)
                return
            self._finish(_executed(self._execution, self._backend, found))
            if self._work.rest(self):
                return
        self._loop.call_soon(self._run)

    def _take(self) -> Taken | Rest:
        try:
            return self._work.take(self)
        except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the instance must go on
            self._work.broke(error)
            return Rest(RETRY_S)


def _executed(execution: Execution, backend: Backend, taken: Taken) -> list[Executed]:
    try:
        return execution.run(backend, taken.tickets, taken.batched_at)
    except Exception as error:  # noqa: BLE001 - a bug of ours, which is logged: the requests must be answered
        told = unexpected(f"running a batch of {execution.name}", error)
        return [failed_batch(taken.tickets, taken.batched_at, told)]
