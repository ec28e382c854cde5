"""Which of the models that are loaded on demand are in memory, and which goes when another must come. Pure.

Rule 1: a model is loaded once for all who want it, in the order in which models were wanted.
Rule 2: at most so many are in memory, those that come and those that go among them. Who wants one more waits for a
    place.
Rule 3: the least recently used goes, and none that is being used; nothing goes unless another waits for its place.
Rule 4: what could not be loaded is not tried again for a while, which grows with each failure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LONGEST_PAUSE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """Load this model."""

    name: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Unload this model: another needs its place."""

    name: str


class Residents:
    """Decides what is loaded and unloaded.

    Args:
        most: models in memory at a time; None for no bound.
    """

    def __init__(self, *, most: int | None) -> None:
        self._most = most
        self._wanted: OrderedDict[str, None] = OrderedDict()  # by when they were, the first first
        self._coming: set[str] = set()
        self._there: OrderedDict[str, None] = OrderedDict()  # the least recently used first
        self._going: set[str] = set()
        self._failures: dict[str, tuple[int, float]] = {}  # how often in a row, and until when it is not tried again

    @property
    def count(self) -> int:
        """Models in memory, with those that come and go."""
        return len(self._coming) + len(self._there) + len(self._going)

    @property
    def blocked(self) -> bool:
        """Whether somebody wants a model that cannot come yet."""
        return bool(self._wanted)

    def pause_s(self, name: str, now: float) -> float:
        """How long the model is not tried again, because it failed; 0 for not at all."""
        return max(0.0, self._failures.get(name, (0, 0.0))[1] - now)

    def want(self, name: str) -> None:
        """Somebody wants a model that is not in memory."""
        if name not in self._coming and name not in self._there:
            self._wanted.setdefault(name)

    def unwanted(self, name: str) -> None:
        """Nobody wants the model any more that is not in memory yet."""
        self._wanted.pop(name, None)
        self._coming.discard(name)

    def used(self, name: str) -> None:
        """Somebody used a model."""
        if name in self._there:
            self._there.move_to_end(name)

    def loaded(self, name: str) -> None:
        """It is in memory now."""
        self._coming.discard(name)
        self._failures.pop(name, None)
        self._there[name] = None

    def failed(self, name: str, now: float) -> None:
        """It cannot be loaded."""
        self._coming.discard(name)
        times = self._failures.get(name, (0, 0.0))[0] + 1
        self._failures[name] = (times, now + min(LONGEST_PAUSE_S, 2.0 ** min(times - 1, 10)))

    def gone(self, name: str) -> None:
        """It is in memory no more, for whatever reason."""
        self._going.discard(name)
        self._there.pop(name, None)

    def due(self, is_busy: Callable[[str], bool]) -> tuple[Load | Evict, ...]:
        """What is to be done now.

        Args:
            is_busy: whether a model that is in memory is being used.
        """
        actions: list[Load | Evict] = []
        for name in [name for name in self._wanted if name not in self._going]:
            if self._most is not None and self.count >= self._most:
                break
            del self._wanted[name]
            self._coming.add(name)
            actions.append(Load(name))
        while len(self._going) < len(self._wanted):
            victim = next((name for name in self._there if not is_busy(name)), None)
            if victim is None or self._most is None:
                break
            del self._there[victim]
            self._going.add(victim)
            actions.append(Evict(victim))
        return tuple(actions)
