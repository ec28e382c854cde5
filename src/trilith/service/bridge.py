"""From any thread to a coroutine: awaited on a loop, waited for in a thread.

Rule 1: a call made while a loop runs in this thread returns an awaitable. A call made in a thread without one blocks
and returns the result.
Rule 2: no thread starts before the first call that needs one.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import Any, Final, NoReturn


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class BackgroundLoop:
    """An event loop in a daemon thread of its own, for coroutines that are called where no loop runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; started when first asked for."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="trilith-loop", daemon=True)
                self._thread.start()
                # A daemon thread inside native code while the interpreter is torn down can crash it.
                atexit.register(self.close)
            return self._loop

    def close(self) -> None:
        """Stops the loop and its thread. The next call to `loop()` starts new ones."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        atexit.unregister(self.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


background: Final = BackgroundLoop()
"""The process's one background loop."""


class Awaited(Coroutine[Any, Any, Any]):
    """A call's coroutine. Used as its result is, it says that it has to be awaited."""

    __slots__ = ("_coroutine", "_what")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], what: str) -> None:
        self._coroutine = coroutine
        self._what = what
        if isinstance(coroutine, CoroutineType):
            coroutine.__qualname__ = what  # what Python says was never awaited

    def __repr__(self) -> str:
        return f"<the call of {self._what}: not awaited yet, `await` it for its result>"

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """As of the coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """As of the coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """As of the coroutine."""
        self._coroutine.close()

    def _used(self, error: type[Exception]) -> NoReturn:
        self._coroutine.close()  # or Python would complain that it was never awaited
        raise error(
            f"the call of {self._what} was made on an event loop, where it gives an awaitable and not its result:"
            " `await` it in an `async def` method. A plain method that makes calls waits for them, so on a loop it runs"
            " in a thread: `await asyncio.to_thread(service.method, ...)`"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that it does not have: who asks goes on without them
            raise AttributeError(name)
        self._used(AttributeError)

    def _use(self, *_: object, **__: object) -> Any:
        self._used(TypeError)

    __getitem__ = __iter__ = __len__ = __contains__ = __array__ = __reversed__ = _use
    __bool__ = __int__ = __float__ = __complex__ = __index__ = __round__ = __format__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _use
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = _use
    __rrshift__ = __divmod__ = __rdivmod__ = __neg__ = __pos__ = __abs__ = __invert__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = _use


def await_or_block(
    make: Callable[[], Coroutine[Any, Any, Any]], home: asyncio.AbstractEventLoop | None, what: str
) -> Any:
    """An awaitable of the coroutine's result when a loop runs in this thread, else the result itself.

    Args:
        make: makes the coroutine.
        home: the loop that it must run on; None when any will do.
        what: is called, for the message to who takes the awaitable for the result.
    """
    here = running_loop()
    if here is not None and (home is None or home is here):
        return Awaited(make(), what)
    future = asyncio.run_coroutine_threadsafe(make(), home if home is not None else background.loop())
    return future.result() if here is None else asyncio.wrap_future(future)
