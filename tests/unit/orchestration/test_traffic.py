"""Any order of revisions, replicas and calls: a call is in one place, none waits beside room, none is forgotten."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trilith.errors import NotFound, QueueFull
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.traffic import BATCHED, Traffic

MAX_WAITING = 3


def route(service: str, method: str, **given) -> MethodRoute:
    values = {"timeout_s": 60.0, "idempotent": False, "batch_rows": 0, "batch_wait_s": 0.0, "max_waiting": MAX_WAITING}
    return MethodRoute(service=service, method=method, **(values | given))


@dataclass(eq=False)
class FakeLink:
    replica_id: int
    service: str
    revision: int
    grant: int = 2
    removed: bool = False
    held: list = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        return len(self.held)

    @property
    def room(self) -> int:
        return self.grant - len(self.held)


@dataclass(eq=False)
class FakeCall:
    route: MethodRoute
    revision: int = 0
    attempt: int = 0
    settled: bool = False
    repeatable: bool = True


METHODS = (
    {("S", "plain"): route("S", "plain"), ("S", "safe"): route("S", "safe", idempotent=True)},
    {("S", "plain"): route("S", "plain", max_waiting=1), ("T", "new"): route("T", "new")},
)


class TrafficMachine(RuleBasedStateMachine):
    """Carries out what `Traffic` says, as a router would."""

    def __init__(self):
        super().__init__()
        self.traffic = Traffic(random=lambda: 0.5)
        self.links: list[FakeLink] = []
        self.newest = 0
        self.leaving: set[int] = set()
        self.calls: list[FakeCall] = []
        self.publish()

    @property
    def revision(self):
        return self.traffic.revision

    def send(self, link, call):
        assert link.room > 0
        assert link.service == call.route.service
        assert call.revision in (0, link.revision), "its caller's kind, or the published one"
        assert link.revision == (call.revision or self.revision)
        assert not link.removed or call.revision == link.revision != self.revision
        call.attempt += 1
        link.held.append(call)

    def place(self, call, *, first=False, bounded=False):
        try:
            link = self.traffic.place(call, first=first, bounded=bounded)
        except NotFound:
            call.settled = True
        else:
            if link is not None:
                self.send(link, call)

    def again(self, displaced):
        for call in displaced.over:
            call.settled = True
        for call in displaced.again:
            self.place(call)

    def feed(self, link):
        deployment = self.traffic.deployment(link.service)
        waiting = self.traffic.queue_for(deployment, link)
        while waiting and link.room > 0:
            self.send(link, waiting.popleft())

    def let_go(self):
        for link in self.traffic.leaving():
            if self.traffic.let_go(link):
                assert not link.held
                self.leaving.discard(link.replica_id)
                for call in self.traffic.stranded(link):
                    self.place(call)
        self.traffic.drop_deserted()

    @rule()
    def publish(self):
        methods = METHODS[(self.revision + 1) % 2]
        self.again(self.traffic.publish(self.revision + 1, {service for service, _ in methods}, methods, ()))
        self.traffic.drop_deserted()

    @rule(service=st.sampled_from("ST"), ahead=st.integers(-1, 1))
    def add(self, service, ahead):
        self.newest += 1
        link = FakeLink(self.newest, service, self.revision + ahead)
        self.links.append(link)
        self.traffic.add(link)
        self.feed(link)

    @rule(data=st.data(), behind=st.sampled_from([None, -1, 0, 1]))
    def submit(self, data, behind):
        methods = METHODS[self.revision % 2]
        wanted = data.draw(st.sampled_from(sorted(methods)))
        call = FakeCall(methods[wanted], 0 if behind is None else self.revision - behind)
        self.calls.append(call)
        try:
            self.place(call, bounded=True)
        except QueueFull:
            call.settled = True
            assert self.traffic.deployment(wanted[0]).waits >= call.route.max_waiting

    def busy(self):
        return [link for link in self.links if link.held]

    @precondition(busy)
    @rule(data=st.data())
    def reply(self, data):
        link = data.draw(st.sampled_from(self.busy()))
        link.held.pop(0).settled = True
        self.feed(link)
        self.let_go()

    @precondition(lambda self: self.links)
    @rule(data=st.data(), begun=st.booleans())
    def lose(self, data, begun):
        link = data.draw(st.sampled_from(self.links))
        self.links.remove(link)
        self.leaving.discard(link.replica_id)
        held, link.held, link.grant = link.held, [], 0
        displaced = self.traffic.lost(link, [(call, begun) for call in held])
        assert {*displaced.again, *displaced.over} == set(held)
        for call in displaced.over:
            assert call.attempt >= 3 or (begun and not call.route.idempotent)
            call.settled = True
        for call in reversed(displaced.again):
            self.place(call, first=True)
        for call in self.traffic.stranded(link):
            self.place(call)
        self.let_go()

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def remove(self, data):
        link = self.traffic.remove(data.draw(st.sampled_from(self.links)).replica_id)
        if link is not None:
            assert link.removed
            self.leaving.add(link.replica_id)
        self.let_go()

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def withdraw(self, data):
        call = data.draw(st.sampled_from(self.calls))
        held = [link for link in self.links if call in link.held]
        assert self.traffic.withdraw(call) == (not call.settled and not held)
        if not held:
            call.settled = True

    @invariant()
    def each_call_is_in_one_place(self):
        places = Counter(id(call) for link in self.links for call in link.held)
        for deployment in self.traffic.deployments:
            for queue in (deployment.waiting, *deployment.beside.values()):
                places.update(id(call) for call in queue)
        for call in self.calls:
            assert places[id(call)] == (0 if call.settled else 1), call

    @invariant()
    def none_waits_beside_room_or_for_nobody(self):
        for deployment in self.traffic.deployments:
            assert not (deployment.waiting and any(link.room > 0 for link in deployment.replicas))
            assert not deployment.waiting or deployment.declared
            for revision, queue in deployment.beside.items():
                alike = deployment.alike(revision)
                assert not (queue and any(link.room > 0 for link in alike))
                assert not queue or alike or revision > self.revision

    @invariant()
    def the_groups_hold_each_replica_once(self):
        grouped = [link for deployment in self.traffic.deployments for link in deployment.everyone]
        assert len(grouped) == len(set(grouped))
        assert {link.replica_id for link in self.traffic.leaving()} == self.leaving
        for deployment in self.traffic.deployments:
            assert all(link.revision == self.revision and not link.removed for link in deployment.replicas)
            assert not any(link.revision == self.revision or link.removed for link in deployment.standby)

    def teardown(self):
        """With a replica for each service all calls end, and who leaves is let go."""
        for service in "ST":
            self.add(service, 0)
            self.add(service, 1)
        while self.busy():
            for link in self.busy():
                link.held.pop(0).settled = True
                self.feed(link)
                self.let_go()
        self.let_go()
        assert all(call.settled for call in self.calls)
        assert not self.leaving


TestTraffic = TrafficMachine.TestCase
TestTraffic.settings = settings(stateful_step_count=40)


def test_a_batched_call_waits_elsewhere_unless_another_revision_makes_it():
    batched = route("S", "many", batch_rows=4)
    traffic: Traffic[FakeLink, FakeCall] = Traffic(random=lambda: 0.0)
    traffic.publish(2, {"S"}, {("S", "many"): batched}, ())
    old = FakeLink(1, "S", 1)
    traffic.add(old)
    assert traffic.place(FakeCall(batched), first=False, bounded=True) is BATCHED
    assert traffic.place(FakeCall(batched, revision=1), first=False, bounded=True) is old
    gone = FakeCall(batched, revision=1)
    traffic.lost(old, [])
    assert traffic.place(gone, first=False, bounded=True) is BATCHED
    assert gone.revision == 0, "its kind is gone for good"


def test_what_is_not_served_is_refused():
    traffic: Traffic[FakeLink, FakeCall] = Traffic(random=lambda: 0.0)
    traffic.publish(1, {"S"}, {("S", "plain"): route("S", "plain")}, ())
    with pytest.raises(NotFound, match=r"T\.other is no longer served"):
        traffic.place(FakeCall(route("T", "other")), first=False, bounded=True)


def test_what_was_sent_once_goes_before_what_waits():
    plain = route("S", "plain")
    traffic: Traffic[FakeLink, FakeCall] = Traffic(random=lambda: 0.0)
    traffic.publish(1, {"S"}, {("S", "plain"): plain}, ())
    waits, sent_before = FakeCall(plain), FakeCall(plain, attempt=1)
    assert traffic.place(waits, first=False, bounded=True) is None
    assert traffic.place(sent_before, first=True, bounded=False) is None
    link = FakeLink(1, "S", 1)
    queue = traffic.queue_for(traffic.add(link), link)
    assert queue is not None
    assert list(queue) == [sent_before, waits]


def test_a_removed_replica_gets_nothing_from_outside():
    plain = route("S", "plain")
    traffic: Traffic[FakeLink, FakeCall] = Traffic(random=lambda: 0.0)
    traffic.publish(1, {"S"}, {("S", "plain"): plain}, ())
    link = FakeLink(1, "S", 1)
    deployment = traffic.add(link)
    assert traffic.remove(1) is link
    assert traffic.remove(1) is None
    assert traffic.place(FakeCall(plain), first=False, bounded=True) is None
    assert not traffic.queue_for(deployment, link)
    assert traffic.let_go(link)
    assert not traffic.let_go(link)
