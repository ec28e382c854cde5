"""How much is sent to an instance ahead of its work. Pure: seconds that were measured are arguments.

Rule 1: what was sent cannot be overtaken any more, by no priority and no other instance. So what is sent ahead is worth
    little: `WORTH_S` of the instance's time.
Rule 2: a model is slow as soon as one batch was: nothing goes ahead of it then. It is quick again when it was.
Rule 3: where batches grow while they wait, one ahead is enough: many small ones would cost more than few large ones.
"""

from __future__ import annotations

from typing import Final

WORTH_S: Final = 0.0005
_MANY_BELOW_S: Final = 0.00025
_AT_ONCE: Final = 2
_MOST: Final = 16
_WEIGHT: Final = 0.125
_TRUSTED_AFTER_S: Final = 60.0


class AheadWindow:
    """How many batches one instance may hold, the running one included.

    Args:
        grows: whether what waits makes batches larger.

    Attributes:
        size: how many now.
    """

    __slots__ = ("_cautious_until", "_grows", "_smoothed_s", "size")

    def __init__(self, *, grows: bool) -> None:
        self._grows = grows
        self._smoothed_s: float | None = None
        self._cautious_until = 0.0
        self.size = 1

    def died(self, now: float) -> None:
        """Its process ended. For a minute few requests are near another one that may end it again."""
        self._cautious_until = now + _TRUSTED_AFTER_S
        self.size = 1

    def observe(self, seconds: float, now: float) -> None:
        """A batch took so many seconds. One of them, in which the machine may have done something else, says little."""
        counted_s = min(seconds, WORTH_S)
        before_s = counted_s if self._smoothed_s is None else self._smoothed_s
        self._smoothed_s = smoothed_s = before_s + _WEIGHT * (counted_s - before_s)
        if seconds >= WORTH_S:
            self.size = 1
        elif self._grows or smoothed_s > _MANY_BELOW_S or now < self._cautious_until:
            self.size = _AT_ONCE
        else:
            self.size = max(_AT_ONCE, min(_MOST, int(WORTH_S / max(smoothed_s, 1e-6))))
