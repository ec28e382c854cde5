"""The queue of a batched method looks only when it must: it sends what one sends that looks after everything."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.net.transport import Reply
from trilith.orchestration.deployments import Deployment, MethodRoute
from trilith.orchestration.engine import batching
from trilith.orchestration.engine.batching import BatchQueue
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.links import ReplicaLink
from trilith.wire.batches import BatchItemResult, encode_batch

TICK_S = 0.001


class Peer:
    """A replica: it takes a batch for each credit, and answers when it is told to."""

    def __init__(self, world):
        self.world, self.credits, self.held = world, 1, {}

    @property
    def in_flight(self):
        return len(self.held)

    def call(self, meta, buffers, on_reply, *, deadline, flags):
        number = next(self.world.numbers)
        self.held[number] = on_reply
        return number

    def stop(self, number):
        """It ends when it ends."""


class Call(PendingCall):
    def took(self, reply):
        """Nobody looks at its instants."""


class World:
    """One queue with its replicas, its clock and its timers."""

    def __init__(self, wait_s, *, always_looks):
        self.instant, self.numbers, self.timers = 1.0, itertools.count(1), []
        self.sent, self.calls = [], []
        self.always_looks = always_looks
        self.route = MethodRoute(
            service="S",
            method="m",
            timeout_s=60.0,
            idempotent=False,
            batch_rows=3,
            batch_wait_s=wait_s,
            max_waiting=1000,
        )
        self.deployment = Deployment(service="S")
        self.queue = BatchQueue(self.route, self.deployment, self)

    # -- what the queue asks of the router ---------------------------------------------------------------------------

    def now(self):
        return self.instant

    def observe_batch(self, route, calls):
        self.sent.append((round(self.instant, 6), calls))

    def succeed(self, call, meta, buffers):
        call.settled = True

    def fail(self, call, error):
        call.settled = True

    # -- the loop ----------------------------------------------------------------------------------------------------

    def call_later(self, delay_s, look):
        timer = SimpleNamespace(at=self.instant + delay_s, look=look)
        timer.cancel = lambda: self.timers.remove(timer)
        self.timers.append(timer)
        return timer

    def passes(self, ticks):
        until = self.instant + ticks * TICK_S
        while due := [timer for timer in self.timers if timer.at <= until]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.instant = max(self.instant, first.at)
            first.look()
        self.instant = until

    # -- what happens ------------------------------------------------------------------------------------------------

    def calls_come(self, count):
        for _ in range(count):
            call = Call(
                self.route, b"", (), received_at=0, submitted_at=0, deadline=self.instant + 60, sink=None, trace=False
            )
            self.calls.append(call)
            self.queue.add(call, self.instant, bounded=True)

    def goes_away(self, index):
        waiting = [call for call in self.calls if call.ticket is not None]
        if waiting:
            call = waiting[index % len(waiting)]
            call.settled = True
            call.ticket.withdraw()

    def joins(self, _):
        if len(self.deployment.replicas) < 3:
            link = ReplicaLink(
                replica_id=len(self.deployment.replicas), service="S", revision=1, pid=1, peer=Peer(self)
            )
            self.deployment.replicas.append(link)
            self.queue.pump(self.instant)  # as the router does

    def leaves(self, index):
        if self.deployment.replicas:
            self.deployment.replicas.pop(index % len(self.deployment.replicas))

    def room_changes(self, index):
        if self.deployment.replicas:
            peer = self.deployment.replicas[index % len(self.deployment.replicas)].peer
            peer.credits = 1 - peer.credits
            if peer.credits:
                self.queue.pump(self.instant)  # as the router does

    def answers(self, index):
        held = [(link, number) for link in self.deployment.replicas for number in link.peer.held]
        if held:
            link, number = held[index % len(held)]
            calls = link.calls.get(number, [])  # none: it was told to stop
            meta = encode_batch([BatchItemResult(ok=True)] * len(calls)) if calls else b""
            code = "" if calls else "cancelled"
            link.peer.held.pop(number)(Reply(not code, meta, [], code, "", self.instant, self.instant))

    def does(self, name, number):
        getattr(self, name)(number)
        if self.always_looks:
            self.queue.pump(self.instant)


events = st.lists(
    st.tuples(
        st.sampled_from(
            ["calls_come", "calls_come", "passes", "answers", "answers", "goes_away", "joins", "leaves", "room_changes"]
        ),
        st.integers(1, 4),
    ),
    min_size=10,
    max_size=60,
)


def run(world, name, number):
    with mock.patch.object(batching, "asyncio", SimpleNamespace(get_running_loop=lambda: world)):
        world.does(name, number)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0.0, 0.003]), events)
def test_it_sends_what_one_sends_that_looks_after_everything(wait_s, happened):
    worlds = World(wait_s, always_looks=False), World(wait_s, always_looks=True)
    for name, number in [("joins", 1), *happened, ("passes", 4)]:
        for world in worlds:
            run(world, name, number)
        assert worlds[0].sent == worlds[1].sent


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([None, 0.0, 0.003]), events)
def test_nothing_waits_beside_a_free_replica_without_a_timer(wait_s, happened):
    world = World(wait_s, always_looks=False)
    for name, number in [("joins", 1), *happened]:
        run(world, name, number)
        free = [link for link in world.deployment.replicas if link.room > 0 and not link.batching]
        assert not (world.queue.waiting and free) or world.timers
    run(world, "passes", 100)
    free = [link for link in world.deployment.replicas if link.room > 0 and not link.batching]
    assert not (world.queue.waiting and free)
