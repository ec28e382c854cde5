"""Items of calls between two peers: order, windows, both ways, cancellation, failures, the end of the connection."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
from waiting import until

from trilith.errors import Bug, DeadlineExceeded
from trilith.net.transport import IncomingStream, Item, Peer, PeerConfig, Reply, SharedMemoryConfig, Window
from trilith.testing.transport import linked_peers
from trilith.wire import frames


class Caller:
    """The caller's end of one stream."""

    def __init__(self, peer: Peer, *, window: Window | None = None, meta: bytes = b"m") -> None:
        self.items: list[Item] = []
        self.replies: list[Reply] = []
        self.stream = peer.open(meta, [], self.replies.append, self.items.append, window=window or Window())

    def take(self) -> list[bytes]:
        """What came, taken."""
        found, self.items[:] = [b"".join(item.buffers) for item in self.items], []
        for body in found:
            self.stream.took(len(body))
        return found


def collect(calls: list[IncomingStream]):
    def prepare(peer: Peer) -> None:
        peer.on_call = calls.append

    return prepare


async def linked(**options) -> tuple[Peer, Peer, list[IncomingStream]]:
    calls: list[IncomingStream] = []
    first, second = await linked_peers(prepare_other=collect(calls), **options)
    return first, second, calls


async def finish(*peers: Peer) -> None:
    for peer in peers:
        peer.check_integrity()
        peer.abort()
        peer.check_integrity()


def test_items_arrive_in_order_before_the_answer(run):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first)
        await until(lambda: calls)
        for number in range(10):
            calls[0].stream.send([str(number).encode()])
        calls[0].result(b"end")
        await until(lambda: caller.replies)
        assert caller.take() == [str(number).encode() for number in range(10)]
        assert caller.replies[0].meta == b"end"
        assert caller.stream.closed
        assert calls[0].stream.closed
        await finish(first, second)

    run(main())


def test_a_reader_that_takes_nothing_holds_its_own_stream_alone(run):
    async def main():
        first, second, calls = await linked()
        slow, quick = Caller(first, window=Window(items=3)), Caller(first, window=Window(items=3))
        await until(lambda: len(calls) == 2)
        streams = [call.stream for call in calls]
        while streams[0].writable:
            streams[0].send([b"x"])
        assert streams[0].items_sent == 3
        seen: list[bytes] = []
        for _ in range(50):
            await until(lambda: streams[1].writable)
            streams[1].send([b"y"])
            await until(lambda: quick.items)
            seen += quick.take()
        assert len(seen) == 50
        with pytest.raises(Bug, match="closed window"):
            streams[0].send([b"x"])
        roomy: list[bool] = []
        streams[0].on_writable = lambda: roomy.append(True)
        assert len(slow.take()) == 3
        await until(lambda: roomy)
        assert streams[0].writable
        await finish(first, second)

    run(main())


def test_both_ways_with_large_items_through_shared_memory(run):
    async def main():
        config = PeerConfig(shared_memory=SharedMemoryConfig(threshold_bytes=4096))
        first, second, calls = await linked(config=config)
        caller = Caller(first)
        await until(lambda: calls)
        call, numbers = calls[0], random.Random(3)
        ended: list[bool] = []

        def echo(item: Item) -> None:
            call.stream.send(item.buffers, item.meta)
            call.stream.took(item.size_bytes)

        call.stream.receive(echo, lambda: (ended.append(True), call.result(b"")), Window(items=4, size_bytes=100_000))
        sent, seen = [], []
        for number in range(60):
            body = np.full(numbers.choice([0, 10, 5000, 150_000]), number % 256, np.uint8).tobytes()
            await until(lambda: caller.stream.writable)
            caller.stream.send([body])
            sent.append(body)
            seen += caller.take()
        caller.stream.end()
        await until(lambda: caller.replies)
        assert ended
        assert seen + caller.take() == sent
        assert first.statistics().buffers_shared > 0
        await finish(first, second)

    run(main())


def test_nothing_is_sent_before_the_called_side_asks(run):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first)
        await until(lambda: calls)
        assert not caller.stream.writable
        caller.stream.end()
        ended: list[bool] = []
        await until(lambda: calls[0].stream.ended)
        calls[0].stream.receive(lambda item: None, lambda: ended.append(True))
        assert ended == [True]
        await finish(first, second)

    run(main())


def test_a_cancelled_stream_stops_and_late_items_are_dropped(run):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first)
        await until(lambda: calls)
        calls[0].stream.send([b"1"])
        first.cancel(caller.stream.call_id)
        cancelled: list[bool] = []
        calls[0].on_cancel = lambda: cancelled.append(True)
        await until(lambda: cancelled)
        assert not calls[0].stream.send([b"2"])
        assert first.in_flight == 1
        calls[0].fail("cancelled", "stopped")
        await until(lambda: first.in_flight == 0)
        assert caller.items == []
        assert caller.replies == []
        await finish(first, second)

    run(main())


def test_a_call_that_is_given_up_fails_at_once_and_frees_its_place_later(run):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first)
        await until(lambda: calls)
        calls[0].stream.send([b"1"])
        calls[0].give_up(DeadlineExceeded("too late"))
        await until(lambda: caller.replies)
        assert caller.replies[0].error_code == "deadline_exceeded"
        assert len(caller.items) == 1
        assert first.in_flight == 1
        calls[0].fail_error(DeadlineExceeded("too late"))
        await until(lambda: first.in_flight == 0)
        assert len(caller.replies) == 1
        await finish(first, second)

    run(main())


def test_a_lost_connection_ends_both_ends(run):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first)
        await until(lambda: calls)
        gone: list[bool] = []
        calls[0].on_cancel = lambda: gone.append(True)
        first.abort()
        assert caller.replies[0].error_code == "replica_lost"
        assert caller.stream.closed
        assert not caller.stream.send([b"x"])
        await until(lambda: gone)
        assert not calls[0].stream.writable
        await finish(second)

    run(main())


def test_unary_calls_pass_beside_a_stream_that_stands_still(run):
    async def main():
        calls: list[IncomingStream] = []

        def prepare(peer: Peer) -> None:
            def on_call(call):
                if isinstance(call, IncomingStream):
                    calls.append(call)
                else:
                    call.result(call.meta)

            peer.on_call = on_call

        first, second = await linked_peers(prepare_other=prepare)
        Caller(first, window=Window(items=1))
        await until(lambda: calls)
        calls[0].stream.send([b"x" * 10**6])
        future = asyncio.get_running_loop().create_future()
        first.call(b"unary", [], future.set_result)
        assert (await future).meta == b"unary"
        await finish(first, second)

    run(main())


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (lambda call_id: frames.encode(frames.ITEM, call_id, b"x"), "was not granted"),
        (lambda call_id: frames.encode(frames.ITEM, call_id + 1, b"x"), "not in flight"),
        (lambda call_id: frames.encode(frames.WINDOW, call_id, first=0.5), "granted"),
    ],
)
def test_a_side_that_breaks_the_rules_is_cut_off(run, caplog, frame, says):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first, window=Window(items=1))
        await until(lambda: calls)
        calls[0].stream.send([b"x"])
        second._channel.send(frame(caller.stream.call_id))
        await until(lambda: first.closed)
        assert says in first.lost_reason
        await finish(second)

    run(main())
    caplog.clear()


def test_items_nobody_asked_for_are_a_breach(run, caplog):
    async def main():
        first, second, calls = await linked()
        caller = Caller(first)
        await until(lambda: calls)
        first._channel.send(frames.encode(frames.ITEM, caller.stream.call_id, b"x", flags=frames.FROM_CALLER))
        await until(lambda: second.closed)
        assert "nobody asked for" in second.lost_reason
        await finish(first)

    run(main())
    caplog.clear()


class Mirror:
    """One stream whose called side sends back what it gets, with what both sides saw."""

    def __init__(self, peer: Peer, numbers: random.Random) -> None:
        window = Window(items=numbers.randint(1, 8), size_bytes=numbers.choice([1, 1000, 100_000]))
        self.caller = Caller(peer, window=window, meta=str(id(self)).encode())
        self.to_send = [numbers.randbytes(numbers.choice([0, 1, 300, 9000])) for _ in range(numbers.randint(0, 25))]
        self.sent: list[bytes] = []
        self.seen: list[bytes] = []
        self.ended = self.cancelled = False
        self.waiting: list[Item] = []

    def answers(self, call: IncomingStream, numbers: random.Random) -> None:
        stream = call.stream

        def pass_on() -> None:
            while self.waiting and stream.writable:
                item = self.waiting.pop(0)
                stream.send(item.buffers)
                stream.took(item.size_bytes)
            if stream.ended and not self.waiting and not stream.closed:
                call.result(b"all")

        def came(item: Item) -> None:
            self.waiting.append(item)
            pass_on()

        call.on_cancel = lambda: call.fail("cancelled", "taken back")
        stream.on_writable = pass_on
        stream.receive(came, pass_on, Window(items=numbers.randint(1, 5), size_bytes=numbers.choice([1, 5000])))

    def step(self, numbers: random.Random) -> None:
        choice = numbers.random()
        if choice < 0.02 and not self.over:
            self.cancelled = True
            self.caller.stream.close()
        elif choice < 0.6 and self.to_send and self.caller.stream.writable:
            self.sent.append(self.to_send.pop(0))
            self.caller.stream.send([self.sent[-1]])
        elif choice < 0.9 and self.caller.items:
            item = self.caller.items.pop(0)
            self.seen.append(b"".join(item.buffers))
            self.caller.stream.took(item.size_bytes)
        if not self.to_send and not self.ended:
            self.ended = True
            self.caller.stream.end()

    @property
    def over(self) -> bool:
        return self.cancelled or bool(self.caller.replies and not self.caller.items)


@pytest.mark.parametrize("seed", range(6))
def test_many_streams_at_random_keep_their_order_and_lose_nothing(run, seed):
    async def main():
        numbers = random.Random(seed)
        config = PeerConfig(shared_memory=SharedMemoryConfig(threshold_bytes=4096))
        mirrors: dict[bytes, Mirror] = {}

        def prepare(peer: Peer) -> None:
            peer.on_call = lambda call: mirrors[call.meta].answers(call, numbers)

        first, second = await linked_peers(prepare_other=prepare, config=config)
        live: list[Mirror] = []
        begun = 0
        while begun < 60 or live:
            if begun < 60 and len(live) < 12 and numbers.random() < 0.3:
                mirror = Mirror(first, numbers)
                mirrors[str(id(mirror)).encode()] = mirror
                live.append(mirror)
                begun += 1
            for mirror in list(live):
                mirror.step(numbers)
                if mirror.cancelled:
                    first.cancel(mirror.caller.stream.call_id)
                    assert mirror.seen == mirror.sent[: len(mirror.seen)]
                    live.remove(mirror)
                elif mirror.over:
                    assert mirror.seen == mirror.sent
                    assert mirror.caller.replies[0].meta == b"all"
                    live.remove(mirror)
            await asyncio.sleep(0)
        await until(lambda: first.in_flight == 0)
        assert first._streams.open_streams == {}
        assert second.incoming == 0
        await finish(first, second)

    run(main())
