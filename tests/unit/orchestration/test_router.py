"""The router over fake connections: every call is settled once, and none waits beside a free replica."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trilith.errors import NotFound, PayloadTooLarge, QueueFull, TrilithError
from trilith.net.transport import LostCall, Reply
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.links import ReplicaLink
from trilith.orchestration.engine.router import Router
from trilith.wire.batches import FLAG_BATCH, BatchItemResult, decode_batch, encode_batch
from trilith.wire.frames import FrameLimits, check_size


class FakePeer:
    """A connection whose other end the test plays. `carries`: most buffers of a call; it refuses those with more."""

    def __init__(self, grant=2):
        self.grant = grant
        self.calls = {}
        self.cancelled = set()
        self.stopped = set()
        self.next_id = 0
        self.carries = 4096
        self.on_credits = None
        self.last_heard_at = time.monotonic()

    @property
    def in_flight(self):
        return len(self.calls)

    @property
    def credits(self):
        return max(0, self.grant - len(self.calls))

    def call(self, meta, buffers, on_reply, *, deadline=None, flags=0):
        assert self.credits > 0
        if len(buffers) > self.carries:
            raise PayloadTooLarge(f"expected at most {self.carries} buffers, got {len(buffers)}")
        self.next_id += 1
        self.calls[self.next_id] = (meta, list(buffers), on_reply, flags)
        return self.next_id

    def cancel(self, call_id):
        self.cancelled.add(call_id)

    def stop(self, call_id):
        self.stopped.add(call_id)

    def answer(self, call_id, *, ok=True):
        had_room = self.credits > 0
        meta, buffers, on_reply, flags = self.calls.pop(call_id)
        if call_id not in self.cancelled:
            if flags & FLAG_BATCH and ok:
                items = decode_batch(meta, len(buffers))
                meta = encode_batch(
                    [BatchItemResult(ok=index != 1, code="service_failed") for index in range(len(items))]
                )
            on_reply(Reply(ok, meta if ok else b"", [], "" if ok else "service_failed", "no", 1.0, 2.0))
        if not had_room and self.on_credits is not None:
            self.on_credits()


class Sink:
    def __init__(self):
        self.outcomes = []

    def answer(self, call, meta, buffers):
        self.outcomes.append("ok")

    def fail(self, call, error):
        self.outcomes.append(error.code)


def route(method, *, service="S", batch_rows=0, idempotent=False, max_waiting=6):
    return MethodRoute(
        service=service,
        method=method,
        timeout_s=60.0,
        idempotent=idempotent,
        batch_rows=batch_rows,
        batch_wait_s=0.0,
        max_waiting=max_waiting,
    )


REVISIONS = (
    [route("plain"), route("safe", idempotent=True), route("many", batch_rows=3, idempotent=True)],
    [route("plain", batch_rows=2), route("many", batch_rows=4), route("new", service="T")],
)


CARRIES = st.sampled_from([4096, 4096, 1, 0])


class RouterMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.idle = []
        self.router = Router(
            observe=lambda *_: None, observe_batch=lambda *_: None, on_idle=self.idle.append, on_unwell=lambda *_: None
        )
        self.links = []
        self.calls = []
        self.revision = 0
        self.next_replica = 0
        self.publish()

    @rule()
    def publish(self):
        self.revision += 1
        self.routes = {(r.service, r.method): r for r in REVISIONS[self.revision % 2]}
        self.router.publish(self.revision, {service for service, _ in self.routes}, self.routes.values())

    @rule()
    def publish_again(self):
        """As when a change was given up: the revision that serves goes on."""
        self.router.publish(self.revision, {service for service, _ in self.routes}, self.routes.values())

    @initialize(carries=CARRIES)
    def begin(self, carries):
        self.add("S", 0, carries)

    @rule(service=st.sampled_from("ST"), ahead=st.integers(-1, 1), carries=CARRIES)
    def add(self, service, ahead, carries=4096):
        self.next_replica += 1
        link = ReplicaLink(
            replica_id=self.next_replica, service=service, revision=self.revision + ahead, pid=1, peer=FakePeer()
        )
        link.peer.carries = carries
        self.links.append(link)
        self.router.add(link)

    @rule(data=st.data(), behind=st.sampled_from([None, -1, 0, 1]))
    def submit(self, data, behind):
        """From outside, or from a replica of the next, this or the last revision."""
        wanted = data.draw(st.sampled_from(sorted(self.routes)))
        revision = 0 if behind is None else self.revision - behind
        now = time.monotonic()
        call = PendingCall(
            self.routes[wanted],
            b"m",
            (b"b",),
            received_at=now,
            submitted_at=now,
            deadline=now + 60,
            sink=Sink(),
            trace=False,
            revision=revision,
        )
        try:
            self.router.submit(call)
        except (QueueFull, NotFound) as error:
            self.router.fail(call, error)
        self.calls.append(call)

    def busy(self):
        return [(link, call_id) for link in self.links for call_id in link.peer.calls]

    @precondition(busy)
    @rule(data=st.data(), ok=st.booleans())
    def answer(self, data, ok):
        link, call_id = data.draw(st.sampled_from(self.busy()))
        link.peer.answer(call_id, ok=ok)

    @precondition(lambda self: self.links)
    @rule(data=st.data(), begun=st.booleans())
    def lose(self, data, begun):
        link = data.draw(st.sampled_from(self.links))
        self.links.remove(link)
        lost = [LostCall(call_id, begun) for call_id in link.peer.calls if call_id not in link.peer.cancelled]
        link.peer.calls.clear()
        link.peer.grant = 0
        self.router.lost(link, lost)

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def remove(self, data):
        self.router.remove(data.draw(st.sampled_from(self.links)).replica_id)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data):
        self.router.cancel(data.draw(st.sampled_from(self.calls)))

    @invariant()
    def settled_once(self):
        for call in self.calls:
            assert len(call.sink.outcomes) == int(call.settled), call.sink.outcomes

    @invariant()
    def nothing_waits_beside_a_free_replica(self):
        for deployment in self.router.deployments:
            if any(link.room > 0 for link in deployment.replicas):
                assert not [call for call in deployment.waiting if not call.settled]
            for revision, waiting in deployment.beside.items():
                if any(link.peer.credits > 0 for link in deployment.alike(revision)):
                    assert not [call for call in waiting if not call.settled]
                if not deployment.alike(revision) and revision < self.revision:
                    assert not [call for call in waiting if not call.settled]
        for queue in self.router._batches.values():
            assert not (queue.waiting and any(queue._free()))

    @invariant()
    def what_a_replica_was_not_given_it_is_not_said_to_hold(self):
        for link in self.links:
            batches = [call_id for call_id, (*_, flags) in link.peer.calls.items() if flags & FLAG_BATCH]
            assert len(link.batching) == len(batches), (link.batching, link.peer.calls)
            assert set(link.calls) <= set(link.peer.calls)
        for call in self.calls:
            if not call.settled and call.link is not None:
                assert any(call is held or (type(held) is list and call in held) for held in call.link.calls.values())

    @invariant()
    def only_the_published_revision_is_called(self):
        for deployment in self.router.deployments:
            assert all(link.revision == self.revision for link in deployment.replicas)

    def teardown(self):
        """When every replica answers and each service has one, every call ends."""
        for service in "ST":
            self.add(service, 0)
            self.add(service, 1)
        while self.busy():
            for link, call_id in self.busy():
                link.peer.answer(call_id)
        self.settled_once()
        for call in self.calls:
            assert call.settled, (call.route, self.router.deployments)


TestRouter = RouterMachine.TestCase
TestRouter.settings = settings(stateful_step_count=40)


def _call(of, **given):
    now = time.monotonic()
    return PendingCall(
        of,
        b"m",
        (b"b",),
        received_at=now,
        submitted_at=now,
        deadline=now + given.get("left_s", 60),
        sink=Sink(),
        trace=False,
        revision=given.get("revision", 0),
    )


def _router(*routes, batches=None):
    router = Router(
        observe=lambda *_: None,
        observe_batch=lambda route, calls: None if batches is None else batches.append((route.method, calls)),
        on_idle=lambda _: None,
        on_unwell=lambda *_: None,
    )
    router.publish(1, {r.service for r in routes}, routes)
    return router


def test_calls_of_another_revision_wait_in_one_bounded_queue():
    plain = route("plain", max_waiting=1)
    router = _router(plain)
    old = _link(grant=1)
    router.add(old)
    router.publish(2, {"S"}, [plain])
    calls = [_call(plain, revision=1) for _ in range(3)]
    router.submit(calls[0])
    router.submit(calls[1])
    assert router.waiting("S") == 1
    with pytest.raises(QueueFull, match="1 calls of S wait already"):
        router.submit(calls[2])
    router.cancel(calls[1])
    assert router.waiting("S") == 0
    router.submit(calls[2])
    old.peer.answer(1)
    old.peer.answer(2)
    assert calls[0].sink.outcomes == calls[2].sink.outcomes == ["ok"]


def test_calls_that_wait_for_a_revision_go_on_when_its_last_replica_is_gone():
    plain = route("plain", max_waiting=1)
    router = _router(plain)
    old = _link(grant=1)
    router.add(old)
    router.publish(2, {"S"}, [plain])
    held, waits, new = _call(plain, revision=1), _call(plain, revision=1), _call(plain)
    for call in (held, waits, new):
        router.submit(call)
    router.lost(old, [LostCall(1, False)])
    assert router.waiting("S") == 3, "none is refused: each was accepted before"
    link = _link(revision=2, grant=8)
    router.add(link)
    for call_id in list(link.peer.calls):
        link.peer.answer(call_id)
    assert all(call.sink.outcomes == ["ok"] for call in (held, waits, new))


def test_a_service_that_only_the_next_revision_has_is_waited_for():
    router = _router(route("plain"))
    new = route("new", service="T")
    call = _call(new, revision=2)
    router.submit(call)
    assert router.waiting("T") == 1
    link = _link(service="T", revision=2)
    router.add(link)
    link.peer.answer(1)
    assert call.sink.outcomes == ["ok"]


def test_a_window_closes_by_itself():
    async def main():
        many = MethodRoute(
            service="S",
            method="many",
            timeout_s=60.0,
            idempotent=True,
            batch_rows=8,
            batch_wait_s=0.001,
            max_waiting=6,
        )
        router = _router(many)  # not started: nothing ticks
        link = _link()
        router.add(link)
        router.submit(_call(many))
        assert not link.peer.calls
        async with asyncio.timeout(5):
            while not link.peer.calls:  # noqa: ASYNC110
                await asyncio.sleep(0)

    asyncio.run(main())


def _link(service="S", revision=1, grant=2):
    return ReplicaLink(replica_id=1, service=service, revision=revision, pid=1, peer=FakePeer(grant))


def test_a_full_queue_does_not_strand_the_batch_of_a_dead_replica():
    many = route("many", batch_rows=4, idempotent=True, max_waiting=2)
    router = _router(many)
    link = _link()
    router.add(link)
    calls = [_call(many)]
    router.submit(calls[0])
    for _ in range(2):
        calls.append(_call(many))
        router.submit(calls[-1])
    with pytest.raises(QueueFull, match="try again later"):
        router.submit(_call(many))
    router.lost(link, [LostCall(1, True)])
    other = _link()
    router.add(other)
    while other.peer.calls:
        for call_id in list(other.peer.calls):
            other.peer.answer(call_id)
    assert all(call.settled for call in calls)


def test_a_batch_of_a_method_that_is_gone_is_stopped_when_its_last_caller_goes():
    many = route("many", batch_rows=4)
    batches = []
    router = _router(many, batches=batches)
    link = _link()
    router.add(link)
    calls = [_call(many) for _ in range(3)]
    router.submit(calls[0])
    router.submit(calls[1])
    router.submit(calls[2])
    assert batches == [("many", 1)]
    router.publish(2, {"S"}, [route("plain")])
    assert [call.sink.outcomes for call in calls] == [[], [NotFound.code], [NotFound.code]]
    router.cancel(calls[0])
    assert link.peer.stopped == {1}


def test_a_replica_runs_one_batch_at_a_time_also_when_nobody_waits_for_it():
    many = route("many", batch_rows=4)
    router = _router(many)
    link = _link()
    router.add(link)
    first, second = _call(many), _call(many)
    router.submit(first)
    router.cancel(first)
    router.submit(second)
    assert link.peer.stopped == {1}
    assert list(link.peer.calls) == [1], "its thread runs still"
    assert list(link.overdue) == ["many"]
    link.peer.answer(1, ok=False)
    assert list(link.peer.calls) == [2]
    assert not link.overdue
    link.peer.answer(2)
    assert (first.sink.outcomes, second.sink.outcomes) == (["cancelled"], ["ok"])


def test_a_service_that_is_gone_is_not_missed():
    router = _router(route("a"), route("b", service="T"))
    waiting = _call(route("b", service="T"))
    router.submit(waiting)
    assert router.not_ready() == ["S", "T"]
    router.publish(2, {"S"}, [route("a")])
    assert waiting.sink.outcomes == [NotFound.code]
    assert router.not_ready() == ["S"]
    assert [entry.service for entry in router.deployments] == ["S"]


def test_a_new_revision_brings_its_batch_sizes():
    router = _router(route("many", batch_rows=1))
    calls = [_call(route("many", batch_rows=1)) for _ in range(4)]
    for call in calls:
        router.submit(call)
    router.publish(2, {"S"}, [route("many", batch_rows=4)])
    link = _link(revision=2)
    router.add(link)
    [(meta, buffers, _, _)] = link.peer.calls.values()
    assert len(decode_batch(meta, len(buffers))) == 4


def test_what_waits_behind_a_batch_goes_on_when_its_revision_is_published_again():
    many = route("many", batch_rows=3)
    router = _router(many)
    link = _link(grant=8)
    router.add(link)
    runs, waits = _call(many), _call(many)
    router.submit(runs)
    router.submit(waits)
    router.publish(1, {"S"}, [many])
    link.peer.answer(1)
    assert runs.sink.outcomes == ["ok"]
    link.peer.answer(2)
    assert waits.sink.outcomes == ["ok"]


def test_deadlines_are_enforced_wherever_the_call_is():
    async def main():
        plain = route("plain")
        router = _router(plain)
        router.start()
        link = _link(grant=1)
        router.add(link)
        held, waiting = _call(plain, left_s=0.05), _call(plain, left_s=0.05)
        router.submit(held)
        router.submit(waiting)
        async with asyncio.timeout(5):
            while not (held.settled and waiting.settled):  # noqa: ASYNC110  the router's own timer settles them
                await asyncio.sleep(0)
        router.stop()
        assert held.sink.outcomes == waiting.sink.outcomes == ["deadline_exceeded"]
        assert link.peer.cancelled == {1}
        assert link.in_flight == 1  # the slot is the replica's until it answers

    asyncio.run(main())


def test_an_answer_that_cannot_be_sent_is_an_error_for_the_caller():
    class Refusing(Sink):
        def answer(self, call, meta, buffers):
            raise TrilithError("a header that is none")

    plain = route("plain")
    router = _router(plain)
    link = _link()
    router.add(link)
    call = _call(plain)
    call.sink = Refusing()
    router.submit(call)
    link.peer.answer(1)
    assert call.sink.outcomes == [TrilithError.code]


def test_a_batch_that_cannot_be_sent_fails_and_the_next_is_served():
    many = route("many", batch_rows=4)
    router = _router(many)
    link = _link(grant=1)
    router.add(link)
    running, *refused = calls = [_call(many) for _ in range(4)]
    for call in calls:
        router.submit(call)
    link.peer.carries = 2
    link.peer.answer(1)
    assert running.sink.outcomes == ["ok"]
    assert [call.sink.outcomes for call in refused] == [["payload_too_large"]] * 3
    assert (link.batching, link.calls, router.waiting("S")) == (set(), {}, 0)
    later = _call(many)
    router.submit(later)
    link.peer.answer(2)
    assert later.sink.outcomes == ["ok"]


def test_a_call_that_cannot_be_sent_fails_and_those_behind_it_go_on():
    plain = route("plain")
    router = _router(plain)
    link = _link(grant=1)
    router.add(link)
    first, large, last = calls = [_call(plain) for _ in range(3)]
    large.buffers = (b"b", b"b")
    for call in calls:
        router.submit(call)
    link.peer.carries = 1
    link.peer.answer(1)
    assert (first.sink.outcomes, large.sink.outcomes) == (["ok"], ["payload_too_large"])
    link.peer.answer(2)
    assert last.sink.outcomes == ["ok"]


def test_a_batch_has_no_more_than_a_frame_carries():
    """300 calls with a head of 60 kB each are over its 16 MiB of metadata."""
    many = route("many", batch_rows=400, max_waiting=400)
    router = _router(many)
    link = _link(grant=1)
    router.add(link)
    calls = [_call(many) for _ in range(301)]
    for call in calls:
        call.meta = bytes(60_000)
        router.submit(call)
    sizes = []
    while link.peer.calls:
        [(call_id, (meta, buffers, _, _))] = link.peer.calls.items()
        sizes.append(len(buffers))
        check_size(len(meta), len(meta), len(buffers), FrameLimits())
        link.peer.answer(call_id, ok=False)
    assert sum(sizes) == 301
    assert len(sizes) == 3
    assert all(call.sink.outcomes == ["service_failed"] for call in calls)
