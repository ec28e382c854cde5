"""Which revision of an application is wanted, which one has the calls, and when the one takes over from the other.

Rule 1: pure. What happened is told by the methods; the engine carries out what they answer.
Rule 2: at most one change is under way: `wanted` is being brought up while `serving` has the calls.
Rule 3: calls switch in one step, when the gateway has loaded the wanted revision and every replica of it runs.
Rule 4: a change that cannot start is dropped: `serving`, which was kept alive meanwhile, is what is wanted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from trilith.orchestration.reconcile import DesiredService

Content = TypeVar("Content")

_NOT_LOADED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision(Generic[Content]):
    """One state of an application's code.

    Attributes:
        number: ascending from 1.
        desired: the replicas that it wants, the root service first.
        content: what the engine needs to know of it.
    """

    number: int
    desired: tuple[DesiredService, ...]
    content: Content


class Revisions(Generic[Content]):
    """The revisions of one server.

    Attributes:
        wanted: the one that should serve; None before the first has described itself.
        serving: the one that calls go to. The first one is it at once: its calls wait for its replicas.
    """

    def __init__(self) -> None:
        self.wanted: Revision[Content] | None = None
        self.serving: Revision[Content] | None = None
        self._newest = 0
        self._loaded = _NOT_LOADED
        self._announced = _NOT_LOADED

    # What happened

    def begin(self) -> int:
        """A change is being loaded; the number of its revision."""
        self._newest += 1
        return self._newest

    def described(self, revision: Revision[Content]) -> bool:
        """A change has said what it is. Returns whether it is wanted: not when a newer one has said so before it."""
        if self.wanted is not None and revision.number <= self.wanted.number:
            return False
        self.wanted = revision
        if self.serving is None:
            self.serving = revision
        return True

    def gateway_started(self) -> None:
        """There is a new gateway, which has loaded nothing."""
        self._loaded = _NOT_LOADED

    def gateway_loaded(self, number: int) -> None:
        """The gateway has loaded the models of a revision; 0: those of a repository without an application."""
        self._loaded = max(self._loaded, number)

    def cannot_start(self) -> bool:
        """The wanted revision fails again and again. Returns whether another one serves; that is wanted from now on."""
        if self.serving is None or self.switched:
            return False
        self.wanted = self.serving
        self._announced = self.serving.number
        return True

    # What follows

    @property
    def newest(self) -> int:
        """The number that was given out last; 0 before the first."""
        return self._newest

    @property
    def live(self) -> set[int]:
        """The numbers of those that may still start something: what is wanted, what serves, and what is being read."""
        return {self._newest, *(each.number for each in (self.wanted, self.serving) if each is not None)}

    @property
    def switched(self) -> bool:
        """Whether calls go to what is wanted."""
        return self.serving is self.wanted

    @property
    def desired(self) -> tuple[DesiredService, ...]:
        """The replicas that are wanted."""
        return () if self.wanted is None else self.wanted.desired

    @property
    def kept(self) -> tuple[DesiredService, ...]:
        """The replicas of what serves, while something else is wanted."""
        return () if self.switched or self.serving is None else self.serving.desired

    def find(self, number: int) -> Revision[Content] | None:
        """The wanted or the serving revision, if it has that number."""
        for revision in (self.wanted, self.serving):
            if revision is not None and revision.number == number:
                return revision
        return None

    @property
    def loaded(self) -> bool:
        """Whether the gateway has loaded what is wanted."""
        return self._loaded >= (0 if self.wanted is None else self.wanted.number)

    @property
    def gateway_served(self) -> bool:
        """Whether this gateway has ever loaded anything."""
        return self._loaded != _NOT_LOADED

    def switch(self, *, complete: bool) -> Revision[Content] | None:
        """The revision that calls go to from now on, or None while nothing changes.

        Args:
            complete: every replica of the wanted revision runs.
        """
        if self.switched or not (complete and self.loaded):
            return None
        self.serving = self.wanted
        return self.serving

    @property
    def announced(self) -> bool:
        """Whether it was announced that what is wanted is up."""
        return self._announced == (0 if self.wanted is None else self.wanted.number)

    @property
    def ever_announced(self) -> bool:
        """Whether any revision was announced."""
        return self._announced != _NOT_LOADED

    def announce(self, running: Callable[[str, int], int]) -> bool:
        """Whether to announce, once a revision, that all of it is up; it counts as announced when this returns True.

        Args:
            running: how many replicas of a service and a revision run.
        """
        still_loading = self.wanted is None and self._newest > 0
        if self.announced or still_loading or not self.loaded or missing(self.desired, running):
            return False
        self._announced = 0 if self.wanted is None else self.wanted.number
        return True


def missing(desired: Sequence[DesiredService], running: Callable[[str, int], int]) -> list[DesiredService]:
    """The services of which fewer replicas run than are wanted."""
    return [entry for entry in desired if running(entry.service, entry.revision) < entry.replicas]
