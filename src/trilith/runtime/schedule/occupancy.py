"""How long a batch occupied its instance, which is what a batch costs. Pure.

Rule 1: where something waited when the instance fell free, the next batch occupies it from then on: taking it, sending
    it there and fetching its answers are paid for each batch, and are most of what a quick model costs.
Rule 2: where nothing waited, from when the batch was formed: an idle instance costs nothing.
"""

from __future__ import annotations


class Occupancy:
    """The instances of one model.

    Args:
        held: whether a window may hold back what waits, so that an instance may idle beside it.
    """

    __slots__ = ("_free_at", "_held")

    def __init__(self, *, held: bool = False) -> None:
        self._held = held
        self._free_at: dict[int, float] = {}

    def seconds(self, instance: int, *, enqueued_at: float, batched_at: float, ended_at: float) -> float:
        """What the batch that ended last took of this instance. Each batch is told once, in the order of their ends.

        Args:
            instance: its number.
            enqueued_at: instant at which the first request of the batch came.
            batched_at: instant at which the batch was formed.
            ended_at: instant at which its answers were there.
        """
        free_at = self._free_at.get(instance)
        self._free_at[instance] = ended_at
        if free_at is None or free_at > ended_at:
            return ended_at - batched_at
        if batched_at <= free_at:  # it was sent ahead, while the one before it still ran
            return ended_at - free_at
        return ended_at - (batched_at if self._held or enqueued_at > free_at else free_at)
