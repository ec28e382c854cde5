"""Which loads run and which are given up, whatever happens in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trilith.errors import CapacityError, Draining
from trilith.runtime.load_slots import GiveUp, LoadSlots, Start

SLOTS, MOST = 2, 3
TIMES = st.sampled_from([None, 1.0, 5.0])


class Loads(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.slots = LoadSlots(slots=SLOTS, most_left_behind=MOST)
        self.now = 0.0
        self.limits = {}
        self.order = []  # as they came, those that did not begin
        self.running = {}  # with their last sign
        self.left = set()
        self.closed = False

    @rule(timeout_s=TIMES)
    def enter(self, timeout_s):
        load = len(self.limits)
        if self.closed:
            with pytest.raises(Draining):
                self.slots.enter(load, timeout_s)
            return
        if len(self.left) >= MOST:
            with pytest.raises(CapacityError, match="loads that were given up still run"):
                self.slots.enter(load, timeout_s)
            return
        self.slots.enter(load, timeout_s)
        self.limits[load] = timeout_s
        self.order.append(load)

    @rule(passed=st.sampled_from([0.0, 0.5, 1.0, 4.0]))
    def look(self, passed):
        self.now += passed
        for action in self.slots.due(self.now):
            if isinstance(action, GiveUp):
                silent_s = self.now - self.running.pop(action.load)
                assert silent_s >= self.limits[action.load]
                assert action.silent_s == silent_s
                self.left.add(action.load)
            else:
                assert not self.closed
                assert action == Start(self.order.pop(0))
                self.running[action.load] = self.now
        assert not self.order or len(self.running) == SLOTS
        assert all(self.limits[load] is None or self.now < at + self.limits[load] for load, at in self.running.items())
        assert self.slots.due(self.now) == ()

    @precondition(lambda self: len(self.limits) > SLOTS)
    @rule()
    def close(self):
        assert self.slots.close() == tuple(self.order)
        self.closed, self.order = True, []

    @rule(data=st.data())
    def end(self, data):
        alive = sorted({*self.running, *self.left})
        if alive:
            load = data.draw(st.sampled_from(alive))
            self.slots.ended(load)
            self.running.pop(load, None)
            self.left.discard(load)

    @rule(data=st.data())
    def sign(self, data):
        if self.running:
            load = data.draw(st.sampled_from(sorted(self.running)))
            self.slots.heard(load, self.now)
            self.running[load] = self.now

    @rule(data=st.data())
    def take_back(self, data):
        if self.limits:
            load = data.draw(st.sampled_from(sorted(self.limits)))
            self.slots.take_back(load)
            if load in self.order:
                self.order.remove(load)
            elif self.running.pop(load, None) is not None:
                self.left.add(load)

    @invariant()
    def counts(self):
        found = (self.slots.waiting, self.slots.running, self.slots.left_behind)
        assert found == (len(self.order), len(self.running), len(self.left))
        assert len(self.running) <= SLOTS
        ends = [at + self.limits[load] for load, at in self.running.items() if self.limits[load] is not None]
        assert self.slots.next_deadline() == min(ends, default=None)


TestLoads = Loads.TestCase
TestLoads.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_an_old_sign_takes_nothing_back():
    slots = LoadSlots(slots=1, most_left_behind=1)
    slots.enter(0, 2.0)
    assert slots.due(10.0) == (Start(0),)
    slots.heard(0, 0.0)
    assert slots.next_deadline() == 12.0
    slots.heard(7, 11.0)  # of one that nobody knows
    assert slots.due(11.9) == ()
    assert slots.due(12.0) == (GiveUp(0, 2.0),)
