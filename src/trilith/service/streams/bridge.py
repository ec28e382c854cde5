"""Streams from one kind of iterator to the other: on a loop, and in a thread.

Rule 1: a call that answers with a stream gives an asynchronous iterator on a loop, whatever its method is, and a plain
    one in a thread.
Rule 2: a plain generator that is read on a loop runs in one thread, from its first step to its closing.
Rule 3: an iterator that is left is closed: what made its items stops.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

from trilith.service.own_thread import END, Steps, in_own_thread
from trilith.service.signature import MethodSignature

_QUEUED: Final = 16


async def in_one_thread(make: Callable[[], Iterable[Any]]) -> AsyncIterator[Any]:
    """The items of a plain iterator, which is made, driven and closed in one thread of its own."""
    loop = asyncio.get_running_loop()
    changed, came = threading.Condition(), asyncio.Event()
    queue: deque[Any] = deque()
    left = over = False
    failures: list[BaseException] = []

    def work() -> None:
        nonlocal over
        try:
            items = iter(make())
            try:
                for item in items:
                    with changed:
                        queue.append(item)
                        loop.call_soon_threadsafe(came.set)
                        while len(queue) >= _QUEUED and not left:
                            changed.wait()
                    if left:
                        break
            finally:
                close = getattr(items, "close", None)
                if close is not None:
                    close()
        except BaseException as error:  # noqa: BLE001  the user's iterator: whatever it raises is for who reads it
            failures.append(error)
        finally:
            over = True
            loop.call_soon_threadsafe(came.set)

    worker = asyncio.ensure_future(in_own_thread(work, "trilith stream"))
    try:
        while True:
            came.clear()
            while queue:
                item = queue.popleft()
                with changed:
                    changed.notify()
                yield item
            if over and not queue:
                break
            await came.wait()
        if failures:
            raise failures[0]
    finally:
        left = True
        with changed:
            changed.notify()
        await asyncio.shield(worker)


class _Pump:
    """Drives an asynchronous iterator in one task of its loop, ahead of the thread that reads by a bounded queue."""

    def __init__(self, make: Callable[[], AsyncIterable[Any]], loop: asyncio.AbstractEventLoop) -> None:
        self._make = make
        self._loop = loop
        self._changed = threading.Condition()
        self._queue: deque[Any] = deque()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._begun = self._left = self._over = False

    def item(self) -> Any:
        """The next item, from the thread; `END` at the end. Raises what the iterator raised."""
        with self._changed:
            if self._left:
                return END
            if not self._begun:
                self._begun = True
                self._loop.call_soon_threadsafe(self._begin)  # in a copy of this thread's context
            while not (self._queue or self._over):
                self._changed.wait()
            if self._queue:
                item = self._queue.popleft()
                if len(self._queue) == _QUEUED // 2:
                    self._loop.call_soon_threadsafe(self._room.set)
                return item
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return END

    def leave(self) -> None:
        """Nobody reads any more; from any thread."""
        with self._changed:
            if self._left or self._over or not self._begun:
                self._left = True
                return
            self._left = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def wait_over(self) -> None:
        """Returns when the iterator is closed; from the thread."""
        with self._changed:
            while self._begun and not self._over:
                self._changed.wait()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        if self._left:
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            items = aiter(self._make())
            try:
                async for item in items:
                    with self._changed:
                        self._queue.append(item)
                        self._changed.notify()
                        full = len(self._queue) >= _QUEUED
                    if full:
                        self._room.clear()
                        if len(self._queue) >= _QUEUED:
                            await self._room.wait()
            finally:
                close = getattr(items, "aclose", None)
                if close is not None:
                    await close()
        except BaseException as error:  # noqa: BLE001  the user's iterator: whatever it raises is for who reads it
            self._failure = None if self._left else error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()


class BlockingItems(Iterator[Any]):
    """The items of an asynchronous iterator on another thread's loop, for a thread that waits for each.

    It begins with the first step. One that is dropped is left.
    """

    def __init__(self, make: Callable[[], AsyncIterable[Any]], loop: asyncio.AbstractEventLoop) -> None:
        self._pump = _Pump(make, loop)

    def __iter__(self) -> BlockingItems:
        return self

    def __next__(self) -> Any:
        """The next item; waits for it."""
        item = self._pump.item()
        if item is END:
            raise StopIteration
        return item

    def close(self) -> None:
        """Leaves it; returns when what made its items has stopped."""
        self._pump.leave()
        self._pump.wait_over()

    def __enter__(self) -> BlockingItems:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._pump.leave()


def from_loop(make: Callable[[], AsyncIterable[Any]], loop: asyncio.AbstractEventLoop) -> AsyncIterator[Any]:
    """The items of an asynchronous iterator on another thread's loop, for a loop of this one."""
    return in_one_thread(lambda: BlockingItems(make, loop))


async def _from_plain(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def _from_thread(items: Iterable[Any]) -> AsyncIterator[Any]:
    steps = Steps(items, "trilith items")
    try:
        while (item := await steps.next()) is not END:
            yield item
    finally:
        steps.leave()


def as_asynchronous(items: Any, *, in_thread: bool) -> AsyncIterable[Any]:
    """What a caller gave for a stream, for a method on a loop.

    Args:
        items: an iterable of either kind.
        in_thread: the steps of a plain one may take long: they are made in threads.

    Raises:
        TypeError: it is none.
    """
    if isinstance(items, AsyncIterable):
        return items
    if not isinstance(items, Iterable):
        raise TypeError(f"a stream is given as an iterable or an asynchronous one, got {type(items).__name__}")
    return _from_thread(items) if in_thread else _from_plain(items)


def as_plain(items: Any, loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    """What a caller on that loop gave for a stream, for a method in a thread. TypeError: it is none."""
    if isinstance(items, Iterable):
        return iter(items)
    return BlockingItems(lambda: as_asynchronous(items, in_thread=False), loop)


def take_out(
    signature: MethodSignature, where: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The stream among the arguments of a call, and the others by name.

    Raises:
        TypeError: the arguments do not fit the signature.
    """
    try:
        bound = signature.inspected.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    return bound.pop(signature.taken.name) if signature.taken is not None else None, bound


def put_in(
    signature: MethodSignature, args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[Any], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, the stream among them changed."""
    taken = signature.taken
    if taken is None:
        return args, kwargs
    if taken.name in kwargs:
        return args, {**kwargs, taken.name: change(kwargs[taken.name])}
    at = list(signature.inspected.parameters).index(taken.name)
    if at >= len(args):
        return args, kwargs  # it is missing, which is the method's to say
    return (*args[:at], change(args[at]), *args[at + 1 :]), kwargs
