"""How a fetch tells where it stands: a port, so that the code that fetches knows no terminal."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass


class Phase(enum.StrEnum):
    """What is being done for a source."""

    WAITING = "waiting"  # another process or thread is fetching the same package
    FETCHING = "fetching"  # bytes are coming in
    VERIFYING = "verifying"  # the hash of the file is being computed
    READY = "ready"  # the file is in the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEvent:
    """One step of one fetch.

    Attributes:
        source: the source as it was written.
        phase: what is being done.
        done_bytes: bytes so far in this phase.
        total_bytes: bytes expected in this phase, or None when unknown.
    """

    source: str
    phase: Phase
    done_bytes: int = 0
    total_bytes: int | None = None


Progress = Callable[[FetchEvent], None]
"""Called from the thread that fetches. It must be quick and must not raise."""


def silent(event: FetchEvent) -> None:
    """A progress that tells nobody."""
