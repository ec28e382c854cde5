"""Full replicas are told that calls wait for the places that streams hold."""

from __future__ import annotations

import math
from types import SimpleNamespace

import msgspec

from trilith.core.identity import Identity
from trilith.orchestration.deployments import Deployment, MethodRoute
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.crowds import Crowds
from trilith.orchestration.engine.hello import decode_crowded
from trilith.orchestration.engine.links import ReplicaLink
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.wire.calls import CallMeta, pack_meta

ROUTE = MethodRoute(service="S", method="m", timeout_s=9, idempotent=False, batch_rows=0, batch_wait_s=0, max_waiting=9)
SINK = SimpleNamespace()


class Peer:
    def __init__(self, room):
        self.credits = room
        self.told = []

    def notify(self, notice):
        self.told.append(decode_crowded(notice).waiting)


def replica(number, *, room=0, streams=1):
    link = ReplicaLink(replica_id=number, service="S", revision=1, pid=1, peer=Peer(room))
    for call_id in range(streams):
        link.calls[call_id] = StreamCall(
            ROUTE, b"", (), received_at=0, submitted_at=0, whole_at=math.inf, sink=SINK, trace=False
        )
    return link


def waiting(client, submitted_at, identity=None):
    meta = pack_meta(CallMeta("S", "m", "", "r", client=f"{client}:1", identity=identity))
    return PendingCall(ROUTE, meta, (), received_at=0, submitted_at=submitted_at, deadline=99, sink=SINK, trace=False)


def test_who_waits_is_told_to_full_replicas_with_streams():
    links = [replica(1), replica(2), replica(3, room=1), replica(4, streams=0)]
    deployment = Deployment(service="S", replicas=links)
    deployment.waiting.extend(
        [waiting("a", 1.0), waiting("b", 1.5, Identity(name="ann", kind="key")), waiting("c", 2.0), waiting("d", 3.5)]
    )
    deployment.waiting.append(
        PendingCall(
            ROUTE,
            msgspec.msgpack.encode("no envelope"),
            (),
            received_at=0,
            submitted_at=0,
            deadline=9,
            sink=SINK,
            trace=False,
        )
    )
    crowds = Crowds()
    crowds.look(deployment, 3.2)
    assert [link.peer.told for link in links] == [[["a"]], [], [], []]  # the others have not waited for long
    crowds.look(deployment, 4.0)  # what was told is given time
    assert [len(link.peer.told) for link in links] == [1, 0, 0, 0]
    crowds.look(deployment, 5.3)
    assert [link.peer.told[-1] for link in links[:2]] == [["key ann"], ["a", "c"]]  # another one is asked first


def test_nobody_is_told_when_nobody_waits_for_long():
    link = replica(1)
    deployment = Deployment(service="S", replicas=[link])
    deployment.waiting.append(waiting("a", 1.0))
    Crowds().look(deployment, 2.0)
    assert link.peer.told == []


def test_a_call_that_goes_on_waiting_is_told_to_each_replica_in_turn():
    links = [replica(1), replica(2), replica(3)]
    deployment = Deployment(service="S", replicas=links)
    deployment.waiting.append(waiting("a", 0.0))
    crowds = Crowds()
    for look in range(6):
        crowds.look(deployment, 10.0 + 3.0 * look)
    assert [len(link.peer.told) for link in links] == [2, 2, 2]


def test_while_it_is_crowded_a_free_place_is_for_who_holds_the_fewest():
    link = replica(1, streams=0)
    for call_id in range(3):
        stream = StreamCall(ROUTE, b"", (), received_at=0, submitted_at=0, whole_at=math.inf, sink=SINK, trace=False)
        stream.meta = waiting("a", 0.0).meta
        link.calls[call_id] = stream
    deployment = Deployment(service="S", replicas=[link])
    queue = deployment.waiting
    queue.extend([waiting("a", 0.0), waiting("a", 0.1), waiting("b", 0.2), waiting("c", 0.3), waiting("b", 0.4)])
    crowds, (_, _, third, fourth, fifth) = Crowds(), queue
    first = queue[0]
    assert crowds.next_call(deployment, queue, 1.0) is first  # nobody has waited for long
    queue.appendleft(first)
    crowds.look(deployment, 10.0)
    assert [crowds.next_call(deployment, queue, 10.0) for _ in range(3)] == [third, fourth, fifth]
    assert crowds.next_call(deployment, queue, 10.0) is first
    queue.extend([third, fourth])
    assert crowds.next_call(deployment, queue, 100.0) is not third  # it is crowded no more


def test_who_has_many_calls_in_the_queue_hides_nobody():
    link = replica(1)
    deployment = Deployment(service="S", replicas=[link])
    deployment.waiting.extend([waiting("a", 0.0) for _ in range(200)] + [waiting("b", 0.0)])
    Crowds().look(deployment, 10.0)
    [told] = link.peer.told
    assert told[:3] == ["a", "b", "a"]
