"""When a model's process writes its answers. Pure: the instant is an argument.

Each write wakes the server, and the two processes then hand each other single requests. While more requests are here
than one, answers of a quick model are held for a moment and leave together.
"""

from __future__ import annotations

from typing import Final

LONGEST_S: Final = 0.0003
_MOST: Final = 16
_FEWEST_WAITING: Final = 2  # with less, the server has to send the next ones first


class Held:
    """The answers that were not written yet.

    Attributes:
        since: the instant in seconds at which the oldest of them was there; None when there is none.
    """

    __slots__ = ("_count", "since")

    def __init__(self) -> None:
        self._count = 0
        self.since: float | None = None

    def add(self, began_at: float, now: float, *, waiting: int) -> bool:
        """Another answer is there. True when all must be written now.

        Args:
            began_at: the instant at which its execution began.
            now: the present one.
            waiting: how many requests have come and were not begun.
        """
        if self.since is None:
            self.since = now
        self._count += 1
        return (
            waiting < _FEWEST_WAITING
            or self._count >= _MOST
            or now - began_at >= LONGEST_S
            or now - self.since >= LONGEST_S
        )

    def written(self) -> None:
        """They left."""
        self._count = 0
        self.since = None
