"""What a batch took of its instance: instants as numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.runtime.schedule import Occupancy


def test_a_batch_that_waited_occupies_from_the_end_of_the_one_before():
    occupancy = Occupancy()
    assert occupancy.seconds(0, enqueued_at=0.0, batched_at=1.0, ended_at=3.0) == 2.0
    assert occupancy.seconds(0, enqueued_at=2.0, batched_at=3.5, ended_at=5.0) == 2.0, "the way there is paid too"
    assert occupancy.seconds(0, enqueued_at=9.0, batched_at=9.0, ended_at=10.0) == 1.0, "idling costs nothing"
    assert occupancy.seconds(1, enqueued_at=9.0, batched_at=9.0, ended_at=10.5) == 1.5, "each instance for itself"


def test_what_was_sent_ahead_occupies_when_the_one_before_has_ended():
    occupancy = Occupancy()
    occupancy.seconds(0, enqueued_at=0.0, batched_at=0.0, ended_at=3.0)
    assert occupancy.seconds(0, enqueued_at=1.0, batched_at=2.0, ended_at=4.0) == 1.0


def test_a_window_is_no_cost():
    occupancy = Occupancy(held=True)
    occupancy.seconds(0, enqueued_at=0.0, batched_at=0.0, ended_at=1.0)
    assert occupancy.seconds(0, enqueued_at=0.5, batched_at=5.0, ended_at=6.0) == 1.0


@given(
    st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 2)), max_size=30),
    st.booleans(),
)
def test_no_instant_is_charged_twice(steps, held):
    """Together the batches took no longer than the time in which they ran."""
    occupancy, now, spent = Occupancy(held=held), 0.0, 0.0
    for wait, idle, run in steps:
        batched_at = now + idle
        spent += occupancy.seconds(0, enqueued_at=batched_at - wait, batched_at=batched_at, ended_at=batched_at + run)
        now = batched_at + run
    assert spent <= now * (1.0 + 1e-9) + 1e-9
    assert spent >= sum(run for _, _, run in steps) * (1.0 - 1e-9) - 1e-9


@pytest.mark.parametrize("ended_at", [0.0, 0.5])
def test_a_clock_that_goes_back_gives_no_negative_time(ended_at):
    occupancy = Occupancy()
    occupancy.seconds(0, enqueued_at=0.0, batched_at=0.0, ended_at=1.0)
    assert occupancy.seconds(0, enqueued_at=0.0, batched_at=0.0, ended_at=ended_at) >= 0.0
