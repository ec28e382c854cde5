"""Calls that came before what they need: each is answered once, and none stays in memory."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trilith.errors import Cancelled, DeadlineExceeded, NoReadyReplica, NotFound
from trilith.orchestration.engine.early_calls import EarlyCalls
from trilith.orchestration.engine.hello import Hello
from trilith.orchestration.engine.worker_desk import WorkerDesk
from trilith.orchestration.known_revisions import KnownRevisions
from trilith.telemetry import ProgramMetrics
from trilith.wire.calls import CallMeta, pack_meta

META = CallMeta("S", "m", "text/plain", "id")


@dataclass(eq=False)
class Incoming:
    deadline: float | None = None
    meta: bytes = b""
    on_cancel: object = None
    answers: list = field(default_factory=list)

    def fail_error(self, error):
        self.answers.append(error.code)


class EarlyMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.early = EarlyCalls("a test")
        self.waiting = []  # (revision, call) in order
        self.over = []

    def released(self, calls):
        for entry in calls:
            assert entry[1].on_cancel is None
            self.waiting.remove(entry)
            self.over.append(entry[1])

    @rule(revision=st.integers(1, 4))
    def keep(self, revision):
        self.waiting.append((revision, Incoming()))
        self.early.keep(self.waiting[-1][1], META, revision)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        revision, incoming = data.draw(st.sampled_from(self.waiting))
        incoming.on_cancel()
        assert incoming.answers == [Cancelled.code]
        self.released([(revision, incoming)])

    @rule(revision=st.integers(1, 4), earlier=st.booleans())
    def take(self, revision, earlier):
        due = [(of, call) for of, call in self.waiting if of == revision or (earlier and of < revision)]
        taken = self.early.take_up_to(revision) if earlier else self.early.take(revision)
        assert [(call.revision, call.incoming) for call in taken] == sorted(due, key=lambda entry: entry[0])
        assert not any(call.answers for _, call in due)
        self.released(due)

    @rule(revision=st.integers(1, 4))
    def fail(self, revision):
        due = [(of, call) for of, call in self.waiting if of == revision]
        self.early.fail(revision, NoReadyReplica("no"))
        assert all(call.answers == [NoReadyReplica.code] for _, call in due)
        self.released(due)

    @invariant()
    def all_are_counted(self):
        assert len(self.early) == len(self.waiting)
        assert all(len(call.answers) <= 1 for call in self.over)


TestEarly = EarlyMachine.TestCase
TestEarly.settings = settings(max_examples=50, stateful_step_count=30)


def test_a_call_waits_to_the_end_of_its_time():
    async def main():
        early = EarlyCalls("the models of its revision")
        overdue, taken, lasting = (Incoming(deadline=time.monotonic() + left_s) for left_s in (-1.0, 0.001, 3600.0))
        early.keep(taken, META, 1)
        [call] = early.take(1)
        assert call.incoming is taken
        early.keep(overdue, META, 1)
        early.keep(lasting, META, 1)
        async with asyncio.timeout(10):
            while not overdue.answers:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert overdue.answers == [DeadlineExceeded.code]
        assert (taken.answers, lasting.answers, len(early)) == ([], [], 1)

    asyncio.run(main())


@dataclass(frozen=True)
class App:
    revision: int
    methods: dict = field(default_factory=dict)


class Connection:
    """What a worker desk sees of a connection."""


class Router:
    def add(self, link):
        pass


@pytest.fixture
def desk():
    known = KnownRevisions()
    desk = WorkerDesk(Router(), None, known, ProgramMetrics(), on_serving=lambda _: None)
    desk.known = known
    return desk


def call_of(desk, revision):
    connection, incoming = Connection(), Incoming(meta=pack_meta(META))
    desk.connected(connection)
    connection.on_notice(msgspec.msgpack.encode(Hello(replica_id=1, service="S", revision=revision, pid=1)))
    connection.on_call(incoming)
    return incoming


def test_a_call_of_a_revision_that_cannot_be_made_ready_is_answered_with_why(desk):
    early = call_of(desk, 1)
    assert early.answers == []
    desk.given_up(1, NoReadyReplica("its description cannot be read"))
    assert early.answers == [NoReadyReplica.code]


def test_a_call_of_a_revision_that_was_passed_over_goes_to_what_is_served(desk):
    passed_over = call_of(desk, 1)
    desk.known.prepare(App(2))
    desk.announced(2)
    assert passed_over.answers == [], "revision 1 may still come"
    desk.known.publish(App(2), ())
    desk.announced(2)
    assert passed_over.answers == [NotFound.code], "revision 2 has no such method"


def test_a_call_that_was_taken_back_is_not_relayed(desk):
    early = call_of(desk, 1)
    early.on_cancel()
    desk.known.prepare(App(1))
    desk.announced(1)
    assert early.answers == [Cancelled.code]
