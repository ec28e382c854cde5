"""The threads of a replica's WSGI applications.

Rule 1: they are theirs: the service's plain methods have others.
Rule 2: as many as the service has `threads` work at a time. One that waits for its client gives up its turn, and
    another request goes on meanwhile: slow clients, up to as many as the replica takes calls, hold up themselves alone.
Rule 3: turns are had in the order in which they were asked for.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from trilith.core.forks import end_if_forked

Result = TypeVar("Result")


class AppThreads:
    """All of them. They are made as they are needed.

    Args:
        turns: how many work at a time.
        most: how many there may be.
        name: of the service.
    """

    def __init__(self, turns: int, most: int, name: str) -> None:
        self._turns = asyncio.Semaphore(turns)
        self._executor = ThreadPoolExecutor(max(turns, most), thread_name_prefix=f"{name} wsgi")

    async def run(self, work: Callable[[Turn], Result], leave: Callable[[], None]) -> Result:
        """What a function returns that runs in one of them, in a copy of this context. It gets its turn.

        When this is cancelled meanwhile `leave` is called, the function goes on, and this ends when that has ended.
        """
        turn = Turn(self._turns)
        context = contextvars.copy_context()

        def run() -> Result:
            try:
                return context.run(work, turn)
            finally:
                end_if_forked()

        await self._turns.acquire()
        try:
            running = asyncio.get_running_loop().run_in_executor(self._executor, run)
            cancelled: asyncio.CancelledError | None = None
            while not running.done():
                try:
                    await asyncio.wait({running})
                except asyncio.CancelledError as error:
                    cancelled = error
                    leave()
            if cancelled is not None:
                raise cancelled
            return running.result()
        finally:
            turn.end()

    def close(self) -> None:
        """No more of them are needed."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class Turn:
    """That of one thread."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._has_it = True

    async def during(self, steps: Coroutine[Any, Any, Result]) -> Result:
        """What steps on the loop come to, for which the thread waits. The turn is given up when they have to wait."""
        later = asyncio.get_running_loop().call_soon(self._give_up)  # not reached by steps that end at once
        try:
            return await steps
        finally:
            later.cancel()
            if not self._has_it:
                await self._turns.acquire()
                self._has_it = True

    def end(self) -> None:
        """The thread needs it no more."""
        if self._has_it:
            self._give_up()

    def _give_up(self) -> None:
        self._has_it = False
        self._turns.release()
