"""Whether the model says that it is ready: asked in a thread of its own, so that it may take its time.

On the lifeline `?` asks, and `+` or `-` answers. One question at a time; what is asked meanwhile has the same answer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

ASK: Final = b"?"
YES: Final = b"+"
NO: Final = b"-"


class Readiness:
    """Asks a model, in its process.

    Args:
        lifeline: where the answer is told.
        says_ready: the model's word.
    """

    def __init__(self, lifeline: socket.socket, says_ready: Callable[[], bool]) -> None:
        self._lifeline = lifeline
        self._says_ready = says_ready
        self._asking = threading.Lock()

    def ask(self) -> None:
        """Begins to ask, if nobody does."""
        if self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask, name="trilith readiness", daemon=True).start()

    def _ask(self) -> None:
        try:
            answer = YES if self._says_ready() else NO
        finally:
            self._asking.release()
        with contextlib.suppress(OSError):  # the runtime is gone, and nobody asks any more
            self._lifeline.send(answer)
