"""Streams that stand still give way when a replica is full of them and other clients wait. Doer of `core.fair_share`.

Rule 1: a stream takes its place for as long as its client likes; a call that waits is one of another client's. Two know
    that something waits: the gateway, for a place of this replica (it says so, `others_wait`), and this replica, for a
    thread (looked at every second while there are streams, and at no other time).
Rule 2: only what waits for its own client is ended: for its next item or message, or for it to take one. A method that
    works is not, however long it does.
Rule 3: it is ended as a call whose time is over: told why, its generator closed, its place free when it has stopped.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from trilith.core.fair_share import HeldPlace, giving_way, holder_of
from trilith.core.timeline import STARTED
from trilith.errors import QueueFull
from trilith.service.call import ServiceCall
from trilith.service.streams.call import StreamServiceCall

_LOOK_S: Final = 1.0
_PATIENCE_S: Final = 2.0
_PAUSE_S: Final = 1.0  # a client that says one item now and then holds a place as one that says nothing does


class Crowding:
    """The streams of one host.

    Args:
        calls: those that the host works on.
        takes_thread: whether a call runs in a thread of the service, as plain methods do.
    """

    def __init__(self, calls: Collection[ServiceCall], takes_thread: Callable[[ServiceCall], bool]) -> None:
        self._calls = calls
        self._takes_thread = takes_thread
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """A stream has begun: threads are looked at until there are none."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def close(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def others_wait(self, holders: Iterable[str]) -> None:
        """Calls of these holders have waited for a place of this replica for a while."""
        now = time.monotonic()
        self._make_room([call for call in self._calls if isinstance(call, StreamServiceCall)], holders, now)

    def _look(self) -> None:
        """Whether calls wait for a thread."""
        self._timer = None
        now = time.monotonic()
        streams = [call for call in self._calls if isinstance(call, StreamServiceCall)]
        if not streams:
            return
        self.watch()
        in_threads = [call for call in self._calls if self._takes_thread(call)]
        late = [call for call in in_threads if now - _unbegun_since(call, now) >= _PATIENCE_S]
        if late:
            holding = [
                call
                for call in in_threads
                if isinstance(call, StreamServiceCall) and _unbegun_since(call, now) == now and not call.done
            ]
            self._make_room(holding, [holder_of(call.meta.client, call.meta.identity) for call in late], now)

    def _make_room(self, streams: list[StreamServiceCall], waiting: Iterable[str], now: float) -> None:
        places = [_place(call, now) for call in streams if not call.done]
        for call in giving_way(places, waiting, now):
            call.cancel(
                QueueFull(
                    f"{call.meta.service}.{call.meta.method} was ended so that others get a place: they waited, its"
                    f" client held more than its share of the streams of this replica ({len(places)}), and of those"
                    f" this one made the least progress ({call.progress} items)"
                )
            )


def _place(call: StreamServiceCall, now: float) -> HeldPlace[StreamServiceCall]:
    silent = call.awaits_caller and now - call.waits_since >= _PAUSE_S
    return HeldPlace(
        place=call,
        holder=holder_of(call.meta.client, call.meta.identity),
        since=next((instant for name, instant in call.context.timeline.stamps if name == STARTED), now),
        progress=call.progress,
        waits_for_holder=silent or call.waits_since == math.inf,
    )


def _unbegun_since(call: ServiceCall, now: float) -> float:
    """Since when a call waits for a thread: its last stamp is that it came. `now`: it has one."""
    name, instant = call.context.timeline.stamps[-1]
    return instant if name == STARTED else now
