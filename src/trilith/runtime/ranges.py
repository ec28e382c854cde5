"""The ranges of numbers in configurations, and the words in which one outside is refused.

Rule: a number is refused where it is read, by its name and with its range; nothing behind it has to live with one that
no timer, thread pool or message could hold.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trilith.errors import InvalidConfig
from trilith.runtime.schedule import LONGEST_S


class Range(NamedTuple):
    """What a number may be, both ends included."""

    least: int
    most: int

    def check(self, name: str, value: float) -> None:
        """Sees that a number is inside.

        Raises:
            InvalidConfig: it is not.
        """
        if not self.least <= value <= self.most:
            raise self.refusal(name, str(value))

    def refusal(self, name: str, got: str) -> InvalidConfig:
        """The error of a number that is not inside."""
        return InvalidConfig(f"{name}: must be an integer from {self.least} to {self.most}, got {got:.100}")


INT32: Final = Range(0, (1 << 31) - 1)
"""Counts of rows and requests: what Triton's message holds."""
UINT32: Final = Range(0, (1 << 32) - 1)
INT64: Final = Range(1, (1 << 63) - 1)
DIMENSION: Final = Range(-1, (1 << 63) - 1)
VERSIONS: Final = Range(1, (1 << 63) - 1)
INSTANCES: Final = Range(1, 256)
LEVELS: Final = Range(1, 1024)
THREADS: Final = Range(0, 1024)
MILLISECONDS: Final = Range(0, int(LONGEST_S * 1e3))
MICROSECONDS: Final = Range(0, int(LONGEST_S * 1e6))
WARMUPS: Final = Range(1, 1_000_000)
