from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trilith.orchestration.deadlines import DeadlineWheel

GRANULARITY_S = 0.02


class WheelMachine(RuleBasedStateMachine):
    """The wheel against a plain dictionary."""

    def __init__(self):
        super().__init__()
        self.wheel = DeadlineWheel(GRANULARITY_S)
        self.model = {}
        self.now = 100.0
        self.next_key = 0

    @rule(delay=st.floats(-1.0, 10.0))
    def add(self, delay):
        self.next_key += 1
        self.model[self.next_key] = self.now + delay
        self.wheel.add(self.next_key, self.now + delay)

    @rule(data=st.data())
    def discard(self, data):
        if self.model:
            key = data.draw(st.sampled_from(sorted(self.model)))
            self.wheel.discard(key, self.model.pop(key))

    @rule()
    def discard_unknown(self):
        self.wheel.discard(-1, self.now)

    @rule(passed=st.floats(0.0, 3.0))
    def advance(self, passed):
        self.now += passed
        expired = self.wheel.expired(self.now)
        assert len(set(expired)) == len(expired)
        for key in expired:
            assert self.model.pop(key) <= self.now
        # Nothing is left that is overdue by more than the granularity.
        assert all(deadline > self.now - 2 * GRANULARITY_S for deadline in self.model.values())

    @rule()
    def advance_to_the_next(self):
        at = self.wheel.next_at()
        assert (at is None) == (not self.model)
        if at is not None:
            # Nothing is due before it, and what is due then was not late by more than the granularity.
            assert min(self.model.values()) <= at <= min(self.model.values()) + 1.01 * GRANULARITY_S
            assert self.wheel.expired(min(at, self.now) - 2 * GRANULARITY_S) == []

    @invariant()
    def as_many(self):
        assert len(self.wheel) == len(self.model)


TestWheel = WheelMachine.TestCase
TestWheel.settings = settings(stateful_step_count=30)
