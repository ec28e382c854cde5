"""Which loads run, which wait, and which are given up. Pure.

Rule 1: so many run at a time and no more; they begin in the order in which they came.
Rule 2: one that ran past its time is given up. It counts no more, so that the next begins. Its thread may go on for
    ever, which nothing can prevent; so there may be only so many of those, and then nothing is loaded until one ends.
Rule 3: waiting costs no time: a load's time begins when it does, and begins anew with each sign that it gets on.
Rule 4: once it is closed nothing begins, whatever falls free.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from trilith.errors import CapacityError, Draining


@dataclass(frozen=True, slots=True)
class Start:
    """Begin this load."""

    load: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop waiting for this load, which gave no sign for `silent_s` seconds."""

    load: int
    silent_s: float


class LoadSlots:
    """Bounds how many loads run, and for how long. Loads are numbers, which the caller chooses.

    Args:
        slots: how many run at a time.
        most_left_behind: how many that were given up may still run before no other is let in.
    """

    def __init__(self, *, slots: int, most_left_behind: int) -> None:
        self._slots = slots
        self._most_left_behind = most_left_behind
        self._waiting: OrderedDict[int, float | None] = OrderedDict()
        self._running: dict[int, tuple[float, float | None]] = {}  # last sign, and the longest silence
        self._left_behind: set[int] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Loads that did not begin."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Loads that run and are wanted."""
        return len(self._running)

    @property
    def left_behind(self) -> int:
        """Loads that were given up and did not end."""
        return len(self._left_behind)

    def enter(self, load: int, timeout_s: float | None) -> None:
        """The load wants to run, and may be silent for so many seconds; None for no limit.

        Raises:
            CapacityError: too many that were given up still run.
            Draining: nothing begins any more.
        """
        if self._closed:
            raise Draining("the runtime was stopped while the model was loading")
        if len(self._left_behind) >= self._most_left_behind:
            raise CapacityError(
                f"{len(self._left_behind)} loads that were given up still run, so no other begins; wait until "
                "some end, or mend the models that hang and start the server again"
            )
        self._waiting[load] = timeout_s

    def heard(self, load: int, at: float) -> None:
        """The load gave a sign at that instant that it gets on."""
        if load in self._running:
            last, timeout_s = self._running[load]
            self._running[load] = (max(last, at), timeout_s)

    def due(self, now: float) -> tuple[Start | GiveUp, ...]:
        """What is to be done now: loads to give up first, then loads to begin."""
        late = [
            GiveUp(load, now - last)
            for load, (last, timeout_s) in self._running.items()
            if timeout_s is not None and last + timeout_s <= now
        ]
        for each in late:
            self.take_back(each.load)
        starts = []
        while self._waiting and len(self._running) < self._slots:
            load, timeout_s = self._waiting.popitem(last=False)
            self._running[load] = (now, timeout_s)
            starts.append(Start(load))
        return (*late, *starts)

    def close(self) -> tuple[int, ...]:
        """Lets nothing begin any more. The loads that waited, in order; what runs goes on running."""
        self._closed = True
        waited = tuple(self._waiting)
        self._waiting.clear()
        return waited

    def take_back(self, load: int) -> None:
        """Nobody wants the load any more. If it runs it is left behind."""
        self._waiting.pop(load, None)
        if self._running.pop(load, None) is not None:
            self._left_behind.add(load)

    def ended(self, load: int) -> None:
        """The load runs no more, whether it was given up or not."""
        self._running.pop(load, None)
        self._left_behind.discard(load)

    def next_deadline(self) -> float | None:
        """The instant at which `due` has something to give up, if nothing else happens; None for never."""
        return min((last + limit for last, limit in self._running.values() if limit is not None), default=None)
