"""Work that whoever asked for it may leave: it goes on by itself, and is waited for at the end.

Rule: what must be ended (a process, a thread, a file that a client sent) is never known to a caller's task alone: a
    caller may be cancelled at any moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Errands:
    """The work of one owner, as tasks that it holds."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begins the work. Who waits for the task must shield it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins the work and waits for it. Cancelling whoever waits cancels the waiting alone."""
        await asyncio.shield(self.begin(work))

    async def settled(self, timeout_s: float | None = None) -> bool:
        """Waits until nothing is under way, also of what begins meanwhile. False when time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            return False
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; nobody may wait any more
