"""The life of a replica, as a table. A pair that is not in it is an error.

Rule: everything that moves a replica from one state to another is an event in this file.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from trilith.errors import Bug


class ReplicaState(enum.StrEnum):
    """Where a replica is in its life."""

    STARTING = "starting"  # the process runs; the service is not ready
    RUNNING = "running"  # takes requests
    DRAINING = "draining"  # finishes what it has, takes nothing new
    STOPPING = "stopping"  # told to exit
    STOPPED = "stopped"  # the process is gone


class ReplicaEvent(enum.StrEnum):
    """What can happen to a replica."""

    READY = "ready"
    DRAIN = "drain"
    IDLE = "idle"  # a draining replica has nothing in flight
    OVERDUE = "overdue"  # a draining replica has had its time
    KILL = "kill"
    EXITED = "exited"


TRANSITIONS: Final[Mapping[tuple[ReplicaState, ReplicaEvent], ReplicaState]] = {
    (ReplicaState.STARTING, ReplicaEvent.READY): ReplicaState.RUNNING,
    (ReplicaState.STARTING, ReplicaEvent.DRAIN): ReplicaState.STOPPING,
    (ReplicaState.STARTING, ReplicaEvent.KILL): ReplicaState.STOPPING,
    (ReplicaState.STARTING, ReplicaEvent.EXITED): ReplicaState.STOPPED,
    (ReplicaState.RUNNING, ReplicaEvent.DRAIN): ReplicaState.DRAINING,
    (ReplicaState.RUNNING, ReplicaEvent.KILL): ReplicaState.STOPPING,
    (ReplicaState.RUNNING, ReplicaEvent.EXITED): ReplicaState.STOPPED,
    (ReplicaState.DRAINING, ReplicaEvent.IDLE): ReplicaState.STOPPING,
    (ReplicaState.DRAINING, ReplicaEvent.OVERDUE): ReplicaState.STOPPING,
    (ReplicaState.DRAINING, ReplicaEvent.KILL): ReplicaState.STOPPING,
    (ReplicaState.DRAINING, ReplicaEvent.EXITED): ReplicaState.STOPPED,
    (ReplicaState.STOPPING, ReplicaEvent.KILL): ReplicaState.STOPPING,
    (ReplicaState.STOPPING, ReplicaEvent.EXITED): ReplicaState.STOPPED,
}


def next_state(state: ReplicaState, event: ReplicaEvent) -> ReplicaState:
    """The state after `event`.

    Raises:
        Bug: the event cannot happen in that state.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise Bug(f"a replica that is {state} cannot see the event {event}; please report this") from None
