"""When what dies again and again may be started again. Pure: the instant is an argument."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class StartBackoff:
    """When something whose processes die may be started again.

    The wait doubles with each death in a row, from `first_s` to `most_s`; a process that has run for `healthy_s` clears
    the count. After `attempts` starts in a row of which none became ready it is given up, or tried on by whoever
    uses this, with waits up to `most_failing_s` (None: `most_s`); after `explained_attempts` when each of them said why
    and none had ever run. One that becomes ready and dies is never given up:
    what it dies of may be what it is asked, and that may end.
    """

    def __init__(
        self,
        *,
        first_s: float = 0.1,
        most_s: float = 10.0,
        most_failing_s: float | None = None,
        attempts: int = 6,
        explained_attempts: int = 2,
        healthy_s: float = 10.0,
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._most_failing_s = most_s if most_failing_s is None else most_failing_s
        self._attempts = attempts
        self._explained_attempts = explained_attempts
        self._healthy_s = healthy_s
        self._deaths: dict[Hashable, int] = {}
        self._failed_starts: dict[Hashable, int] = {}
        self._explained: dict[Hashable, int] = {}
        self._not_before: dict[Hashable, float] = {}

    def exited(self, key: Hashable, *, ready_for_s: float | None, now: float, explained: bool = False) -> None:
        """Notes that a process died by itself.

        Args:
            key: what it was.
            ready_for_s: how long it had been running (seconds), None when it never was.
            now: the instant in seconds.
            explained: it never ran, nor did any before it, and it said why: most likely the next says the same.
        """
        self._explained[key] = self._explained.get(key, 0) + 1 if explained else 0
        if ready_for_s is not None and ready_for_s >= self._healthy_s:
            self._deaths[key] = 0
        deaths = self._deaths[key] = self._deaths.get(key, 0) + 1
        self._failed_starts[key] = self._failed_starts.get(key, 0) + 1 if ready_for_s is None else 0
        # The first death of a process that did work is replaced at once; storms are slowed.
        wait_s = 0.0 if deaths == 1 and ready_for_s is not None else self._first_s * 2 ** min(deaths - 1, 30)
        self._not_before[key] = now + min(wait_s, self._most_failing_s if self.given_up(key) else self._most_s)

    def not_before(self, key: Hashable) -> float:
        """The earliest instant, in seconds, at which a process may be started; 0.0 for at once."""
        return self._not_before.get(key, 0.0)

    def given_up(self, key: Hashable) -> bool:
        """Whether it failed to start too often in a row."""
        explained = self._explained.get(key, 0)
        return self.failed_starts(key) >= self._attempts or explained >= self._explained_attempts

    def failed_starts(self, key: Hashable) -> int:
        """Starts in a row of which none became ready."""
        return self._failed_starts.get(key, 0)

    def forget(self, key: Hashable) -> None:
        """Starts afresh."""
        for book in self._books:
            book.pop(key, None)

    def keep(self, wanted: Callable[[Hashable], bool]) -> None:
        """Forgets all others: what will never be started again."""
        for key in [key for key in self._not_before if not wanted(key)]:
            self.forget(key)

    @property
    def _books(self) -> tuple[dict[Hashable, Any], ...]:
        return self._deaths, self._failed_starts, self._explained, self._not_before
