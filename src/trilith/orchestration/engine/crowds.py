"""Tells full replicas that calls wait for their places: which streams give way for it is theirs to find. Doer.

While it is so, a place that gets free is that of who holds the fewest, not of whoever has the most calls in the queue.

Rule: it is asked at each look at the replicas, and costs something only while calls of a service have waited for long.
What was told is given time to come true before more is told; then it is another replica's turn to be asked first,
because the one that was may hold only streams that need not give way.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from trilith.core.fair_share import holder_of
from trilith.errors import InvalidInput
from trilith.orchestration.engine.calls import LinkedDeployment, PendingCall
from trilith.orchestration.engine.hello import Crowded
from trilith.orchestration.engine.links import ReplicaLink
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.wire.calls import unpack_call

_PATIENCE_S: Final = 2.0
_MOST_TOLD: Final = 64
_MOST_LOOKED_AT: Final = 1024
_CROWDED_FOR_S: Final = 3 * _PATIENCE_S


class Crowds:
    """Of one router."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}
        self._turns: dict[str, int] = {}  # looks at which replicas of a service were told

    def look(self, deployment: LinkedDeployment, now: float) -> None:
        """Tells the replicas of a service, when its calls wait for long."""
        if now - self._told_at.get(deployment.service, -_PATIENCE_S) < _PATIENCE_S:
            return
        waiting = [call for call in deployment.waiting if not call.settled and now - call.submitted_at >= _PATIENCE_S]
        if not waiting:
            return
        self._told_at[deployment.service] = now
        holders = _in_turn(_holders(waiting[:_MOST_LOOKED_AT]))[:_MOST_TOLD]
        full = [link for link in deployment.replicas if link.room == 0 and any(_streams(link))]
        turn = self._turns[deployment.service] = self._turns.get(deployment.service, -1) + 1
        first = turn % len(full) if full else 0
        for index, link in enumerate(full[first:] + full[:first]):  # each that waits needs one place
            share = holders[index :: len(full)]
            if share:
                link.peer.notify(msgspec.msgpack.encode(Crowded(waiting=share)))

    def next_call(self, deployment: LinkedDeployment, waiting: deque[PendingCall], now: float) -> PendingCall:
        """Takes out the call that gets the next place.

        Args:
            deployment: of the service.
            waiting: the queue, with one call at least.
            now: the instant, in seconds.
        """
        told_at = self._told_at.get(deployment.service)
        if told_at is None or now - told_at > _CROWDED_FOR_S or len(waiting) == 1:
            return waiting.popleft()
        held = Counter(_holder(call) for link in deployment.replicas for call in _streams(link))
        some = list(itertools.islice(waiting, _MOST_LOOKED_AT))
        index = min(range(len(some)), key=lambda index: held[_holder(some[index])])  # of equal ones the first
        del waiting[index]
        return some[index]


def _holders(calls: Iterable[PendingCall]) -> list[str]:
    return [holder for call in calls if (holder := _holder(call))]


def _in_turn(holders: Iterable[str]) -> list[str]:
    """The first of each, then the second of each, and so on: who has many calls in the queue hides nobody."""
    seen: Counter[str] = Counter()
    ranked = []
    for position, holder in enumerate(holders):
        ranked.append((seen[holder], position, holder))
        seen[holder] += 1
    return [holder for _, _, holder in sorted(ranked)]


def _holder(call: PendingCall | StreamCall) -> str:
    """Whose call it is; "" for that of a model, whose envelope is another."""
    try:
        meta = unpack_call(call.meta)
    except InvalidInput:
        return ""
    return holder_of(meta.client, meta.identity)


def _streams(link: ReplicaLink) -> Iterator[StreamCall]:
    return (call for call in link.calls.values() if isinstance(call, StreamCall))
