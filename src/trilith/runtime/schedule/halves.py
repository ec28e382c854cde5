"""In which parts a batch is run: whole first, and what failed in halves, where running it twice does no harm.

    parts = Halves(len(batch), repeatable=True)
    for first, past in parts:
        ...run batch[first:past]...
        if it failed and not parts.split():
            ...its items have failed...

Rule 1: pure. The caller runs the parts, in the order in which they are given: from the first item to the last.
Rule 2: every item is in exactly one part that is not split: it succeeds there or fails there, and is answered once.
Rule 3: an item that fails alone harms no other: a part of one is the last that is tried for it.
"""

from __future__ import annotations

from typing import Self


class Halves:
    """The parts of one batch, as (position of the first item, position past the last).

    Args:
        size: items in the batch.
        repeatable: whether items may be run again. Else there is one part, the whole.
    """

    __slots__ = ("_last", "_parts", "_repeatable")

    def __init__(self, size: int, *, repeatable: bool) -> None:
        self._repeatable = repeatable
        self._last = (0, size)
        self._parts = [self._last] if size else []  # the next one last

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[int, int]:
        if not self._parts:
            raise StopIteration
        self._last = self._parts.pop()
        return self._last

    def split(self) -> bool:
        """Says that the part given last has failed; returns whether its halves are run instead."""
        first, past = self._last
        if not self._repeatable or past - first < 2:
            return False
        middle = (first + past) // 2
        self._parts += ((middle, past), (first, middle))
        return True
