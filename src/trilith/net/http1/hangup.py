"""Notices that a client has gone although nobody reads from its socket.

A paused transport reads nothing, so it sees no end of file either. Linux tells of a peer that closed (EPOLLRDHUP)
without a read: sockets are put into an epoll set of their own while they are paused, and the set's descriptor, readable
when something happened in it, is watched by the event loop.

One case cannot be seen by anybody: a client that closes while bytes it sent do not fit into the paused socket any more.
Its end of file stays behind them, and shows when reading goes on.
"""

from __future__ import annotations

import asyncio
import select
from typing import Final, Protocol

_GONE: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class Watched(Protocol):
    """Who is told."""

    def hung_up(self) -> None:
        """The other side has closed its end, or the connection broke."""
        ...


class HangupWatch:
    """The paused sockets of one server."""

    __slots__ = ("_epoll", "_loop", "_owners")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._owners: dict[int, Watched] = {}
        loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, descriptor: int, owner: Watched) -> None:
        """Tells `owner`, once, when the peer of the socket `descriptor` goes."""
        if descriptor in self._owners:
            self._forget(descriptor)
        self._epoll.register(descriptor, _GONE)
        self._owners[descriptor] = owner

    def unwatch(self, descriptor: int, owner: Watched) -> None:
        """Ends `watch`; does nothing when it has ended, or when the number has another owner by now."""
        if self._owners.get(descriptor) is owner:
            self._forget(descriptor)

    def close(self) -> None:
        """Ends all watching; a second time it does nothing."""
        if self._epoll.closed:
            return
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._owners.clear()

    def _forget(self, descriptor: int) -> None:
        del self._owners[descriptor]
        try:
            self._epoll.unregister(descriptor)
        except OSError:
            return  # a closed socket leaves the set by itself

    def _ready(self) -> None:
        for descriptor, _ in self._epoll.poll(0):
            owner = self._owners.get(descriptor)
            if owner is not None:
                self._forget(descriptor)
                owner.hung_up()
