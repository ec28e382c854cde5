"""What learning costs the queue: work that is counted, and a lock that is free while curves are computed."""

import sys
import threading
from collections import Counter

from trilith.core.clock import MonotonicClock
from trilith.runtime.queue import ModelQueue
from trilith.runtime.schedule import BatchingConfig, BatchSizer
from trilith.runtime.schedule.cost import SIZES_KEPT


def taught(most, sizer=None):
    """One that saw every size from 1 to `most`, a few times."""
    sizer = sizer or BatchSizer(most)
    for _ in range(4):
        for rows in range(1, most + 1):
            sizer.observe("shape", rows, 0.01 + 0.001 * rows)
    return sizer


def calls_of(function, *arguments):
    """How many functions were called, of Python and of C."""
    counted = Counter()
    sys.setprofile(lambda frame, event, argument: counted.update((event,)))
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return counted["call"] + counted["c_call"]


def test_the_work_of_a_choice_is_bounded_whatever_the_largest_batch_is():
    few, many = (calls_of(taught(most).choose, "shape", most) for most in (32, 2048))
    assert many < 2.0 * few, "2048 rows may go together, and 32"


def test_few_sizes_are_kept_those_that_run_among_them():
    sizer = BatchSizer(512)
    for number in range(4000):
        for rows in (7, 64, 1 + number % 512):
            sizer.observe("shape", rows, 0.01 + 0.001 * rows)
    learned = sizer.learned("shape", sizer.curve("shape"))
    assert len(learned.points) == SIZES_KEPT
    assert {7, 64} <= {point.rows for point in learned.points}


def test_what_was_copied_stays_as_it_was():
    sizer = taught(8)
    curve = sizer.curve("shape")
    before = sizer.learned("shape", curve)
    assert before == sizer.learned("shape", sizer.curve("shape"))
    for _ in range(20):
        sizer.observe("shape", 8, 1.0)
    assert sizer.learned("shape", curve) == before != sizer.learned("shape", sizer.curve("shape"))


def test_curves_are_computed_while_the_queue_is_free():
    found = []

    class Looks(BatchSizer):
        """Sees whether somebody else can touch the queue meanwhile."""

        def learned(self, shape, curve):
            other = threading.Thread(target=lambda: found.append(queue.statistics()), daemon=True)
            other.start()
            other.join(10.0)
            return super().learned(shape, curve)

    sizer = taught(8, Looks(8))
    queue = ModelQueue(
        BatchingConfig(max_batch_size=8),
        name="m",
        clock=MonotonicClock(),
        on_expired=lambda: None,
        on_broken=lambda error: None,
        sizer=sizer,
    )
    (curve,) = queue.learned()
    assert (curve.shape, len(found)) == ("shape", 1)
