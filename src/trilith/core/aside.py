"""Blocking work aside of the loop, which may hang: nobody waits longer for it than he says.

Rule: these threads are daemons, and none of the loop's pool: one that hangs must neither take a thread of the pool for
    ever nor keep the program from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


async def aside(work: Callable[[], object], *, name: str, timeout_s: float) -> bool:
    """Runs `work` in a thread of its own, and waits for it. False when it takes longer, and goes on by itself.

    What it raises is raised, if it is still waited for.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        await asyncio.wait_for(ended, timeout_s)
    except TimeoutError:
        return False
    return True
