"""Whether the repositories have a model of some name: asked of their disks in threads, which may take long, or hang.

Rule 1: a name is looked for once at a time; who asks meanwhile shares the answer.
Rule 2: what hangs is given up, and so much may be looked for at a time. Nobody else waits for it.
Rule 3: everything here runs on the loop's thread, but `holds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from trilith.errors import CapacityError, Draining, NoReadyReplica, QueueFull
from trilith.runtime.load_threads import STOPPED, LoadThreads, Overdue

MOST_LOOKS: Final = 1024
"""Names that may be looked for at a time."""


class Looks:
    """Looks for models by name.

    Args:
        holds: asks the disks.
        threads: where it does.
        timeout_s: after so many seconds a look is given up.
        known: names of models that are there, as was seen when it began.
    """

    def __init__(
        self, holds: Callable[[str], bool], threads: LoadThreads, *, timeout_s: float, known: Iterable[str]
    ) -> None:
        self._holds = holds
        self._threads = threads
        self._timeout_s = timeout_s
        self._known = set(known)
        self._running: dict[str, asyncio.Task[bool]] = {}

    def running(self, name: str) -> bool:
        """Whether it is being looked for."""
        return name in self._running

    def saw(self, name: str) -> bool:
        """Whether the model was there when somebody last looked. Looks again, for whoever asks next."""
        if name not in self._running and len(self._running) < MOST_LOOKS:
            self._begin(name)
        return name in self._known

    async def look(self, name: str) -> bool:
        """Whether the model is there.

        Raises:
            NoReadyReplica: the disk does not say so in time.
            CapacityError: too much is being looked for, or nothing any more.
        """
        task = self._running.get(name)
        if task is None:
            if len(self._running) >= MOST_LOOKS:
                raise QueueFull(f"Exceeds maximum queue size: {MOST_LOOKS} names of models are being looked for")
            task = self._begin(name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():  # but whoever asks
                raise
            raise Draining(STOPPED) from None

    async def stop(self) -> None:
        """Looks for nothing any more."""
        begun = list(self._running.values())
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    def _begin(self, name: str) -> asyncio.Task[bool]:
        task = self._running[name] = asyncio.get_running_loop().create_task(self._look(name))
        task.add_done_callback(lambda ended: self._ended(name, ended))
        return task

    def _ended(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._running[name]
        if task.cancelled() or task.exception() is not None:  # nobody may wait for it
            return
        if task.result():
            self._known.add(name)
        else:
            self._known.discard(name)

    async def _look(self, name: str) -> bool:
        why = "its repository"
        try:
            job = self._threads.begin(
                lambda _: self._holds(name), what=f"looking for model '{name}'", timeout_s=self._timeout_s
            )
            return await job.wait()
        except Overdue:
            why += f" has not said within {self._timeout_s:g} s whether it is there"
        except CapacityError:
            why += " does not answer, and many have asked"
        except OSError as error:
            why += f" cannot be read: {error.strerror}"
        raise NoReadyReplica(f"Request for unknown model: '{name}' is not at ready state: {why}")
