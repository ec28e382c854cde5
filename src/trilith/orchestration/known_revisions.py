"""Which revisions of an application a gateway knows, and whose calls meet which. Pure.

Rule 1: one revision is served; the next is being prepared; earlier ones are remembered while a replica of theirs is
    connected, since it may still make calls.
Rule 2: a replica may be quicker than the order that announces its revision: its calls are early until that has come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Generic, Protocol, TypeVar


class Numbered(Protocol):
    """One revision of an application."""

    @property
    def revision(self) -> int:
        """Its number, ascending."""
        ...


A = TypeVar("A", bound=Numbered)


class KnownRevisions(Generic[A]):
    """The applications by revision.

    Attributes:
        served: the one that calls from outside go to; None before the first.
        known: every one whose replicas may make calls, by number; those of others call what is served.
        prepared: the one whose models are loaded, or being loaded; that is served now or next.
    """

    def __init__(self) -> None:
        self.served: A | None = None
        self.prepared: A | None = None
        self.known: dict[int, A] = {}

    def prepare(self, application: A) -> None:
        """The application is to be got ready: calls of its replicas are not early any more."""
        self.prepared = application
        self.known[application.revision] = application

    def publish(self, application: A, connected: Collection[int]) -> None:
        """It is served from now on. `connected`: the revisions of the replicas that there are."""
        self.served = application
        self.known = {
            revision: known
            for revision, known in self.known.items()
            if revision >= application.revision or revision in connected
        }

    def is_early(self, revision: int) -> bool:
        """Whether a revision is not known yet and may become so; if not, calls of its replicas meet what is served."""
        served = self.served.revision if self.served is not None else 0
        return revision > served and revision not in self.known

    def needed(self, connected: Iterable[int]) -> list[A]:
        """What is served, what is next, and what connected replicas, given by revision, are of."""
        candidates = (self.served, self.prepared, *(self.known.get(revision) for revision in connected))
        return [application for application in candidates if application is not None]
