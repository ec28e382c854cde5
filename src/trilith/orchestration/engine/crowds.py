"""Tells full replicas that calls wait for their places: which streams give way for it is theirs to find. Doer.

Rule: it is asked at each look at the replicas, and costs something only while calls of a service have waited for long.
What was told is given time to come true before more is told; then it is another replica's turn to be asked first,
because the one that was may hold only streams that need not give way.
"""

from __future__ import annotations

from collections.abc import Iterable
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
_MOST_WAITING: Final = 64


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
        holders = _holders(waiting[:_MOST_WAITING])
        full = [link for link in deployment.replicas if link.room == 0 and _holds_streams(link)]
        turn = self._turns[deployment.service] = self._turns.get(deployment.service, -1) + 1
        first = turn % len(full) if full else 0
        for index, link in enumerate(full[first:] + full[:first]):  # each that waits needs one place
            share = holders[index :: len(full)]
            if share:
                link.peer.notify(msgspec.msgpack.encode(Crowded(waiting=share)))


def _holders(calls: Iterable[PendingCall]) -> list[str]:
    found = []
    for call in calls:
        try:
            meta = unpack_call(call.meta)
        except InvalidInput:  # of a model: its envelope is another
            continue
        found.append(holder_of(meta.client, meta.identity))
    return found


def _holds_streams(link: ReplicaLink) -> bool:
    return any(isinstance(call, StreamCall) for call in link.calls.values())
