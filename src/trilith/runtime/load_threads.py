"""The threads that load, one a load. What hangs in one is given up, and the others go on.

Rule 1: when and which is decided in `load_slots`; this file does it.
Rule 2: a result belongs to exactly one: to whoever waits for it, or, when nobody does any more, to `discard`, in a
    thread.
Rule 3: everything here runs on the loop's thread, but what is in a job's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from trilith.core.clock import Clock, timer_delay_s
from trilith.errors import Draining, SetupError, TrilithError
from trilith.runtime.load_run import LoadRun
from trilith.runtime.load_slots import GiveUp, LoadSlots

MOST_LEFT_BEHIND: Final = 16
STOPPED: Final = "the runtime was stopped while the model was loading"
_FREE_AGAIN_S: Final = 0.1
_log: Final = logging.getLogger("trilith.runtime")
_Result = TypeVar("_Result")


class Overdue(SetupError):
    """A load gave no sign for longer than it may, and was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStatistics:
    """What the loading threads do now.

    Attributes:
        waiting: loads that wait for a thread.
        running: loads that run.
        left_behind: loads that were given up and still run.
    """

    waiting: int = 0
    running: int = 0
    left_behind: int = 0


class LoadJob(Generic[_Result]):
    """One piece of blocking work.

    Attributes:
        run: how far it is.
        threads: where it runs.
        over: whether its outcome is known.
        hangs: whether it ran past its time.
    """

    def __init__(
        self,
        threads: LoadThreads,
        work: Callable[[LoadRun], _Result],
        *,
        number: int,
        what: str,
        discard: Callable[[_Result], None],
    ) -> None:
        self.threads = threads
        self._work = work
        self._discard = discard
        self._outcome: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._lock = threading.Lock()
        self._unwanted = False
        self._ended = False
        self.hangs = False
        self.number = number
        self.what = what
        self.run = LoadRun()
        self.thread: threading.Thread | None = None

    @property
    def over(self) -> bool:
        """Whether its outcome is known."""
        return self._outcome.done()

    @property
    def begun(self) -> bool:
        """Whether it has its thread."""
        return self.thread is not None

    async def wait(self) -> _Result:
        """What the work returned or raised, or why it was given up. Whoever is cancelled here takes it back."""
        try:
            return await self._outcome
        except asyncio.CancelledError:
            self.give_up(SetupError(f"{self.what}: whoever asked for it wants it no more"))
            raise

    def give_up(self, error: TrilithError) -> None:
        """Whoever waits gets this error now; what the work brings later is discarded."""
        with self._lock:
            if self._unwanted:
                return
            self._unwanted = True
            ended = self._ended
        self.run.give_up(error.message)
        if not ended:
            self.threads.left(self.number)
        if not self._outcome.done():
            self._outcome.set_exception(error)
            self._outcome.exception()  # nobody may wait any more

    def start(self) -> None:
        """Starts the thread. A system that has none for it fails the work."""
        self.thread = threading.Thread(target=self._in_thread, name=f"trilith load {self.what}", daemon=True)
        try:
            self.thread.start()
        except RuntimeError as error:
            with self._lock:
                self._ended = True
            failure = SetupError(f"{self.what}: it cannot begin: {error}")
            self.threads.post(self._deliver, None, failure, False)

    def _in_thread(self) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = self._work(self.run)
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        with self._lock:
            self._ended = True
            unwanted = self._unwanted
        if unwanted and error is None:
            self._free(result)
        self.threads.post(self._deliver, result, error, unwanted)

    def _deliver(self, result: Any, error: BaseException | None, freed: bool) -> None:
        self.threads.ended(self.number)
        if freed or (self._unwanted and error is not None):
            return
        if self._unwanted:  # it was given up between its end and now
            self._free_aside(result)
        elif not self._outcome.done():
            if error is None:
                self._outcome.set_result(result)
            else:
                self._outcome.set_exception(error)

    def _free_aside(self, result: Any) -> None:
        name = f"trilith free {self.what}"
        try:
            threading.Thread(target=self._free, args=(result,), name=name, daemon=True).start()
        except RuntimeError:  # the system has none now
            self._outcome.get_loop().call_later(_FREE_AGAIN_S, self._free_aside, result)

    def _free(self, result: Any) -> None:
        _log.info("%s was given up before it ended; what it brought is freed", self.what)
        try:
            self._discard(result)
        except Exception:  # noqa: BLE001 - a backend's own code
            _log.exception("%s: what it brought cannot be freed", self.what)


class LoadThreads:
    """Runs loads, so many at a time.

    Args:
        slots: how many run at a time.
        clock: tells the time.
        loop: the loop that calls everything here.
    """

    def __init__(self, slots: int, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._slots = LoadSlots(slots=slots, most_left_behind=MOST_LEFT_BEHIND)
        self._clock = clock
        self._loop = loop
        self._numbers = itertools.count()
        self._jobs: dict[int, LoadJob[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None  # once it is closed: done when the last thread ended

    def begin(
        self,
        work: Callable[[LoadRun], _Result],
        *,
        what: str,
        timeout_s: float | None,
        discard: Callable[[_Result], None] = lambda _: None,
    ) -> LoadJob[_Result]:
        """Lets blocking work run in a thread, when there is room.

        Args:
            work: what to do.
            what: the same as words, for messages: `model 'ocr' version 1`.
            timeout_s: after so many seconds without a sign that it gets on it is given up; None for never.
            discard: frees what it returned when nobody waits for it any more.

        Raises:
            CapacityError: too many loads that were given up still run.
        """
        number = next(self._numbers)
        self._slots.enter(number, timeout_s)
        job = LoadJob(self, work, number=number, what=what, discard=discard)
        self._jobs[number] = job
        self._look()
        return job

    def statistics(self) -> LoadStatistics:
        """What they do now."""
        slots = self._slots
        return LoadStatistics(waiting=slots.waiting, running=slots.running, left_behind=slots.left_behind)

    def shut(self) -> None:
        """Gives up what waits, and lets nothing begin any more."""
        for number in self._slots.close():
            self._jobs[number].give_up(Draining(STOPPED))

    async def close(self, timeout_s: float) -> None:
        """Gives up everything, and waits up to `timeout_s` seconds for the threads to end; not for those that hang."""
        self.shut()
        for job in list(self._jobs.values()):
            job.give_up(Draining(STOPPED))
        if not self._all_hang:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=timeout_s)
        if self._timer is not None:
            self._timer.cancel()
        for job in self._jobs.values():
            _log.warning("%s still loads, and is left behind", job.what)

    def post(self, call: Callable[..., None], *arguments: object) -> None:
        """From a job's thread: calls something on the loop's."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the job was given up before
            self._loop.call_soon_threadsafe(call, *arguments)

    def left(self, number: int) -> None:
        """Nobody wants the job any more; it did not end."""
        job = self._jobs[number]
        self._slots.take_back(number)
        if not job.begun:  # and it never will
            del self._jobs[number]
        self._look()

    def ended(self, number: int) -> None:
        """The job's thread ends."""
        self._slots.ended(number)
        self._jobs.pop(number, None)
        if self._all_hang and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        self._look()

    @property
    def _all_hang(self) -> bool:
        """Whether there is nothing left but what ran past its time."""
        return all(job.hangs for job in self._jobs.values())

    def _look(self) -> None:
        now = self._clock.now()
        for number, job in self._jobs.items():
            self._slots.heard(number, job.run.heard_at)
        for action in self._slots.due(now):
            job = self._jobs[action.load]
            if isinstance(action, GiveUp):
                job.hangs = True
                job.give_up(_too_late(job, action.silent_s))
            else:
                job.start()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._slots.next_deadline()
        if deadline is not None:
            self._timer = self._loop.call_later(timer_delay_s(deadline, now), self._look)


def _too_late(job: LoadJob[Any], silent_s: float) -> Overdue:
    return Overdue(
        f"{job.what}: gave up {job.run.phase} after {silent_s:.3g} s: it hangs, or needs longer than it may. Mend it "
        "and load it again; or allow more: --model-load-timeout-s, or load_timeout_ms in its model.yaml"
    )
