"""Which models are in memory, whatever is wanted in whatever order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from trilith.runtime.residents import LONGEST_PAUSE_S, Evict, Load, Residents

NAMES = st.sampled_from("abcdef")


class Memory(RuleBasedStateMachine):
    @initialize(most=st.sampled_from([None, 1, 2, 3]))
    def begin(self, most):
        self.most = most
        self.residents = Residents(most=most)
        self.wanted = []
        self.coming, self.going, self.busy = set(), set(), set()
        self.there = []  # the least recently used first

    @rule(name=NAMES)
    def want(self, name):
        if name in self.there:
            return
        self.residents.want(name)
        if name not in self.coming and name not in self.wanted:
            self.wanted.append(name)

    @rule(name=NAMES)
    def want_no_more(self, name):
        self.residents.unwanted(name)
        self.coming.discard(name)
        if name in self.wanted:
            self.wanted.remove(name)

    @rule(name=NAMES)
    def use(self, name):
        self.residents.used(name)
        if name in self.there:
            self.there.remove(name)
            self.there.append(name)

    @rule(name=NAMES, is_busy=st.booleans())
    def run(self, name, is_busy):
        if is_busy and name in self.there:
            self.busy.add(name)
        else:
            self.busy.discard(name)

    @rule()
    def look(self):
        for action in self.residents.due(self.busy.__contains__):
            if isinstance(action, Load):
                assert action.name == next(name for name in self.wanted if name not in self.going)
                self.wanted.remove(action.name)
                self.coming.add(action.name)
            else:
                assert action == Evict(next(name for name in self.there if name not in self.busy))
                self.there.remove(action.name)
                self.going.add(action.name)
        assert self.residents.due(self.busy.__contains__) == ()
        # Nobody waits beside a place, nor beside one that could be made.
        waiting = [name for name in self.wanted if name not in self.going]
        assert not waiting or self.count == self.most
        assert len(self.going) >= len(self.wanted) or not [name for name in self.there if name not in self.busy]

    @rule(data=st.data(), fine=st.booleans())
    def come(self, data, fine):
        if self.coming:
            name = data.draw(st.sampled_from(sorted(self.coming)))
            self.coming.remove(name)
            if fine:
                self.residents.loaded(name)
                self.there.append(name)
                assert self.residents.pause_s(name, 0.0) == 0.0
            else:
                self.residents.failed(name, 0.0)
                assert 0.0 < self.residents.pause_s(name, 0.0) <= LONGEST_PAUSE_S

    @rule(data=st.data())
    def go(self, data):
        if self.going:
            name = data.draw(st.sampled_from(sorted(self.going)))
            self.going.remove(name)
            self.residents.gone(name)

    @rule(data=st.data())
    def be_unloaded_by_somebody_else(self, data):
        if self.there:
            name = data.draw(st.sampled_from(sorted(self.there)))
            self.there.remove(name)
            self.busy.discard(name)
            self.residents.gone(name)

    @property
    def count(self):
        return len(self.coming) + len(self.there) + len(self.going)

    @invariant()
    def bounded(self):
        if hasattr(self, "residents"):
            assert self.residents.count == self.count
            assert self.residents.blocked == bool(self.wanted)
            assert self.most is None or self.count <= self.most
            assert self.most is not None or not self.going


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_pauses_grow_and_end():
    residents = Residents(most=None)
    pauses = []
    for _ in range(12):
        residents.failed("a", 100.0)
        pauses.append(residents.pause_s("a", 100.0))
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_S
    assert residents.pause_s("a", 100.0 + LONGEST_PAUSE_S) == 0.0
    residents.loaded("a")
    residents.failed("a", 0.0)
    assert residents.pause_s("a", 0.0) == 1.0
