"""Which revisions of an application a gateway knows, and whose calls meet which. Pure.

Rule 1: one revision is served; the next is being prepared; earlier ones are remembered while a replica of theirs is
    connected, since it may still make calls.
Rule 2: a replica may be quicker than the order that announces its revision: its calls are kept until that has come.
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
E = TypeVar("E")


class KnownRevisions(Generic[A, E]):
    """The applications by revision, and the calls that came early.

    Attributes:
        served: the one that calls from outside go to; None before the first.
        known: every one whose replicas may make calls, by number; those of others call what is served.
        prepared: the one whose models are loaded, or being loaded; that is served now or next.
    """

    def __init__(self) -> None:
        self.served: A | None = None
        self.prepared: A | None = None
        self.known: dict[int, A] = {}
        self._early: dict[int, list[E]] = {}

    def prepare(self, application: A) -> list[E]:
        """The application is to be got ready; the calls that waited for that."""
        self.prepared = application
        self.known[application.revision] = application
        return self._early.pop(application.revision, [])

    def publish(self, application: A, connected: Collection[int]) -> None:
        """It is served from now on. `connected`: the revisions of the replicas that there are."""
        self.served = application
        self.known = {
            revision: known
            for revision, known in self.known.items()
            if revision >= application.revision or revision in connected
        }

    def keep_early(self, revision: int, call: E) -> bool:
        """Keeps a call of a replica whose revision is not known yet; False: it is, or will never be."""
        served = self.served.revision if self.served is not None else 0
        if revision <= served or revision in self.known:
            return False
        self._early.setdefault(revision, []).append(call)
        return True

    def needed(self, connected: Iterable[int]) -> list[A]:
        """What is served, what is next, and what connected replicas, given by revision, are of."""
        candidates = (self.served, self.prepared, *(self.known.get(revision) for revision in connected))
        return [application for application in candidates if application is not None]
