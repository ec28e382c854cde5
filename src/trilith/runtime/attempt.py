"""One attempt to load a model: from being asked for until it serves, has failed, or is wanted no more.

Rule: an attempt that is given up never touches the model again. Whoever waits for it is told at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from trilith.errors import Cancelled, TrilithError
from trilith.runtime.changes import Standing
from trilith.runtime.load_run import WAITING, LoadRun
from trilith.runtime.load_threads import LoadJob, LoadThreads

_Result = TypeVar("_Result")


class Attempt:
    """One attempt.

    Args:
        number: later ones have higher numbers.
        name: the model's name.
        began_at: the instant at which it was asked for.
        on_serving: called once what it loads serves, before what was there is ended.

    Attributes:
        standing: what it loads from, once that is known.
        serves: whether what it loaded took over; what is left is to end what was there before.
        outcome: done when it ends, for those who want the same and wait for it too.
    """

    def __init__(
        self, number: int, name: str, began_at: float, on_serving: Callable[[], object] = lambda: None
    ) -> None:
        self.number = number
        self.began_at = began_at
        self.standing: Standing | None = None
        self.serves = False
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._jobs: list[LoadJob[object]] = []
        self._over: TrilithError | None = None
        self._wanted_by = 1
        self._joined: Attempt | None = None
        self._on_serving = [on_serving]

    @property
    def given_up(self) -> bool:
        """Whether it is wanted no more."""
        return self._over is not None

    def begun_in(self, threads: LoadThreads) -> bool:
        """Whether anything of it has begun in these threads."""
        return any(job.begun and job.threads is threads for job in self._jobs)

    async def join(self, other: Attempt) -> None:
        """Leaves the loading to the other, which loads the same; waits until that ends.

        Raises:
            TrilithError: it could not.
        """
        self._joined = other
        other._wanted_by += 1
        other._on_serving += self._on_serving
        await asyncio.shield(other.outcome)

    def leave(self, error: TrilithError) -> None:
        """Whoever asked for it wants it no more. Unless somebody else wants the same, it is given up."""
        self._wanted_by -= 1
        if not self._wanted_by:
            self.give_up(error)
            if self._joined is not None:
                self._joined.leave(error)

    async def run(
        self,
        threads: LoadThreads,
        work: Callable[[LoadRun], _Result],
        *,
        what: str,
        timeout_s: float | None,
        discard: Callable[[_Result], None] = lambda _: None,
    ) -> _Result:
        """Runs blocking work of it in one of `threads`; see `LoadThreads.begin`.

        Raises:
            TrilithError: it is wanted no more, or ran past its time.
        """
        if self._over is not None:
            raise self._over
        job = threads.begin(work, what=what, timeout_s=timeout_s, discard=discard)
        self._jobs.append(job)  # type: ignore[arg-type]  # what a job gives is nothing to those who give it up
        return await job.wait()

    def give_up(self, error: TrilithError) -> None:
        """It is wanted no more: whoever waits gets this error now. Does nothing once it serves."""
        if self.serves:
            return
        self._over = self._over or error
        for job in sorted(self._jobs, key=lambda each: each.begun):  # what waits first, or it would begin in its place
            job.give_up(error)

    def took_over(self) -> None:
        """What it loaded serves."""
        self.serves = True
        for call in self._on_serving:
            call()

    def check(self) -> None:
        """Lets it go on, if it is still wanted.

        Raises:
            TrilithError: it is not.
        """
        if self._over is not None:
            raise self._over

    def end(self, error: BaseException | None) -> None:
        """It is over: it serves now, or this is why not."""
        if error is None:
            self.outcome.set_result(None)
        elif isinstance(error, Exception):
            self.outcome.set_exception(error)
            self.outcome.exception()  # nobody else may wait for it
        else:
            self.outcome.set_exception(
                Cancelled(f"failed to load '{self._name}', whoever asked for it wants it no more")
            )
            self.outcome.exception()

    def doing(self, now: float) -> str:
        """What it does, for how long: `loading for 12 s: warming up`."""
        running = [job.run.phase for job in self._jobs if not job.over]
        phase = next((phase for phase in running if phase != WAITING), running[0] if running else "")
        return f"loading for {now - self.began_at:.0f} s" + (f": {phase}" if phase not in ("", "loading") else "")
