"""Whether one socket is read; while it is not, its hang-up is watched for."""

from __future__ import annotations

import asyncio
from typing import Final

from trilith.net.http1.hangup import HangupWatch, Watched

_NOT_WATCHED = -1

FULL_READ_BYTES: Final = 200_000
"""About what a transport reads at a time: so much means that there is more."""


class ReadGate:
    """Pauses and resumes one transport.

    Attributes:
        paused: the socket is not read.
    """

    __slots__ = ("_descriptor", "_hangups", "_owner", "_rests", "_transport", "paused")

    def __init__(self, transport: asyncio.Transport, hangups: HangupWatch, owner: Watched) -> None:
        self._transport = transport
        self._hangups = hangups
        self._owner: Watched | None = owner
        self._descriptor = _NOT_WATCHED
        self._rests = False
        self.paused = False

    def rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads on in the next turn of the loop, behind what waits now.

        A transport reads on within one turn, megabytes of it, for as long as every read fills its buffer.
        """
        if not self.paused and not self._rests and self._owner is not None and not self._transport.is_closing():
            self._rests = True
            self._transport.pause_reading()
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rests = False
        if not self.paused and self._owner is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def set(self, *, paused: bool) -> bool:
        """Makes it so. Returns whether anything changed; a closing transport does not."""
        if paused == self.paused or self._owner is None or self._transport.is_closing():
            return False
        self.paused = paused
        if paused:
            if not self._rests:
                self._transport.pause_reading()
            self._descriptor = self._transport.get_extra_info("socket").fileno()
            self._hangups.watch(self._descriptor, self._owner)
        else:
            self.forget()
            if not self._rests:
                self._transport.resume_reading()
        return True

    def end(self) -> None:
        """The connection is over: watches no longer, and lets go of its owner, which knows this gate."""
        self.forget()
        self._owner = None

    def forget(self) -> None:
        """Watches no longer. To be called before the socket closes: its number may get another owner."""
        if self._descriptor != _NOT_WATCHED and self._owner is not None:
            self._hangups.unwatch(self._descriptor, self._owner)
            self._descriptor = _NOT_WATCHED
