"""Users' code that blocks, each piece in a thread of its own.

Rule 1: never in a pool. What waits for something that another piece of the same pool would have to do waits for ever
    once the pool is full, and asyncio's own pool is full with six on a machine of two cores.
Rule 2: a thread that hangs in a user's code holds up nobody's end: it is a daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeVar

ResultT = TypeVar("ResultT")

END: Final = object()
"""What stands for the end of an iterator."""


async def in_own_thread(work: Callable[[], ResultT], name: str) -> ResultT:
    """What a function returns, or raises; run in a copy of this context.

    Args:
        work: what blocks. It goes on when this is cancelled.
        name: of the thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ResultT] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - the user's, for who waits for it
            _tell(loop, _fail, done, error)
        else:
            _tell(loop, _settle, done, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


class Steps:
    """An iterator whose steps may block, for a loop: each is made in one thread, when it is asked for."""

    def __init__(self, items: Iterable[Any], name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked: queue.SimpleQueue[asyncio.Future[Any] | None] = queue.SimpleQueue()
        self._context = contextvars.copy_context()
        self._items = items
        threading.Thread(target=self._context.run, args=(self._run,), name=name, daemon=True).start()

    async def next(self) -> Any:
        """The next item, or `END`. Raises what the iterator raises."""
        done: asyncio.Future[Any] = self._loop.create_future()
        self._asked.put(done)
        return await done

    def leave(self) -> None:
        """Nobody asks any more: the iterator is closed when its present step is over. Nobody waits for that."""
        self._asked.put(None)

    def _run(self) -> None:
        iterator: Any = None
        try:
            while (done := self._asked.get()) is not None:
                try:
                    iterator = iter(self._items) if iterator is None else iterator
                    item = next(iterator, END)
                except BaseException as error:  # noqa: BLE001 - the user's, for who reads
                    _tell(self._loop, _fail, done, error)
                else:
                    _tell(self._loop, _settle, done, item)
        finally:
            if isinstance(iterator, Generator):
                iterator.close()


def _settle(done: asyncio.Future[Any], result: Any) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        wrapped = RuntimeError(f"the iterator raised {error!r}") if isinstance(error, StopIteration) else error
        done.set_exception(wrapped)


def _tell(loop: asyncio.AbstractEventLoop, told: Callable[..., None], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(told, *args)
