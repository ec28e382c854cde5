"""The life of a model version, as a table. A pair that is not in it is an error. Pure.

Rule: everything that moves a model version from one state to another is an event in this file.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from trilith.errors import Bug


class ModelState(enum.StrEnum):
    """Where a model version is in its life; Triton's words."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class ModelEvent(enum.StrEnum):
    """What can happen to a model version."""

    LOADED = "loaded"
    FAILED = "failed"  # it cannot be loaded
    RETIRED = "retired"  # somebody wants it unloaded: what is in flight ends
    UNLOADED = "unloaded"
    STOPPED = "stopped"  # the runtime as a whole
    LOST = "lost"  # no instance lives any more
    RESTORED = "restored"  # one does again


TRANSITIONS: Final[Mapping[tuple[ModelState, ModelEvent], ModelState]] = {
    (ModelState.LOADING, ModelEvent.LOADED): ModelState.READY,
    (ModelState.LOADING, ModelEvent.FAILED): ModelState.UNAVAILABLE,
    (ModelState.LOADING, ModelEvent.RETIRED): ModelState.UNLOADING,  # whoever loaded it gave up
    (ModelState.LOADING, ModelEvent.STOPPED): ModelState.UNAVAILABLE,
    (ModelState.READY, ModelEvent.RETIRED): ModelState.UNLOADING,
    (ModelState.READY, ModelEvent.STOPPED): ModelState.UNAVAILABLE,
    (ModelState.READY, ModelEvent.LOST): ModelState.UNAVAILABLE,
    (ModelState.UNAVAILABLE, ModelEvent.LOST): ModelState.UNAVAILABLE,  # it cannot be started again
    (ModelState.UNAVAILABLE, ModelEvent.RESTORED): ModelState.READY,
    (ModelState.UNLOADING, ModelEvent.RETIRED): ModelState.UNLOADING,  # whoever unloaded it gave up
    (ModelState.UNLOADING, ModelEvent.UNLOADED): ModelState.UNAVAILABLE,
    (ModelState.UNLOADING, ModelEvent.STOPPED): ModelState.UNAVAILABLE,
    (ModelState.UNAVAILABLE, ModelEvent.RETIRED): ModelState.UNLOADING,
    (ModelState.UNAVAILABLE, ModelEvent.UNLOADED): ModelState.UNAVAILABLE,  # the runtime stopped meanwhile
    (ModelState.UNAVAILABLE, ModelEvent.STOPPED): ModelState.UNAVAILABLE,
}


def next_state(state: ModelState, event: ModelEvent) -> ModelState:
    """The state after `event`.

    Raises:
        Bug: the event cannot happen in that state.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise Bug(f"a model that is {state} cannot see the event {event}; please report this") from None
