"""How many calls of a client may be under way at a time, whatever connection each has: in threads and on loops.

Rule: those that wait get their turn in the order in which they came.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

from trilith.errors import DeadlineExceeded


class Places:
    """The places of one client.

    Args:
        url: of the server, for messages.
        count: how many there are.
    """

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._unused = count
        self._waiting: deque[Future[None]] = deque()

    @contextlib.contextmanager
    def held(self, within_s: float | None) -> Iterator[None]:
        """One of them, for the time of a `with` block, in a thread. See `take`."""
        self.take(within_s)
        try:
            yield
        finally:
            self.free()

    def take(self, within_s: float | None) -> None:
        """Takes one, in a thread.

        Args:
            within_s: how long to wait for it, in seconds; None for ever.

        Raises:
            DeadlineExceeded: none was free.
        """
        turn = self._turn()
        if turn is None:
            return
        try:
            turn.result(within_s)
        except BaseException as error:
            self._leave(turn)
            if isinstance(error, TimeoutError):
                raise self._none_free() from None
            raise

    async def take_on_loop(self, within_s: float | None) -> None:
        """Takes one, on a loop. See `take`."""
        turn = self._turn()
        if turn is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            self._leave(turn)
            if isinstance(error, TimeoutError):
                raise self._none_free() from None
            raise

    def free(self) -> None:
        """Gives one back; from any thread."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._unused += 1
                    return
                turn = self._waiting.popleft()
            if turn.set_running_or_notify_cancel():
                turn.set_result(None)
                return

    def _turn(self) -> Future[None] | None:
        """What is done when there is one; None: it is taken."""
        with self._lock:
            if self._unused:
                self._unused -= 1
                return None
            turn: Future[None] = Future()
            self._waiting.append(turn)
            return turn

    def _leave(self, turn: Future[None]) -> None:
        if not turn.cancel():  # it came meanwhile
            self.free()

    def _none_free(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"no connection to {self._url} was free within the client's time limit: trilith.client(..., connections=N)"
            " allows more of them"
        )
