"""Two peers on one loop: calls, answers, order, cancellation, grants, large buffers, the end."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import threading
import time

import numpy as np
import pytest
from waiting import until

from trilith.errors import Bug, Draining, InvalidConfig, PayloadTooLarge, QueueFull, ReplicaLost, ServiceError
from trilith.net.transport import FrameLimits, IncomingCall, LostCall, Peer, PeerConfig, Reply, SharedMemoryConfig
from trilith.testing.transport import linked_peers


def ask(peer: Peer, meta: bytes, buffers=(), **options) -> asyncio.Future[Reply]:
    """A call whose reply can be awaited."""
    future = asyncio.get_running_loop().create_future()
    peer.call(meta, buffers, future.set_result, **options)
    return future


def echo(peer: Peer) -> None:
    def on_call(call: IncomingCall) -> None:
        call.begin()
        call.result(call.meta, call.buffers)

    peer.on_call = on_call


def collect(calls: list[IncomingCall]):
    """Callbacks that keep each incoming call for the test to answer."""

    def prepare(peer: Peer) -> None:
        peer.on_call = calls.append

    return prepare


async def finish(*peers: Peer) -> None:
    for peer in peers:
        peer.check_integrity()
        peer.abort()
        peer.check_integrity()


def test_both_sides_call_each_other(run):
    async def main():
        first, second = await linked_peers(prepare=echo, prepare_other=echo)
        replies = await asyncio.gather(ask(first, b"to second", [b"abc"]), ask(second, b"to first"))
        assert [(reply.ok, reply.meta) for reply in replies] == [(True, b"to second"), (True, b"to first")]
        assert bytes(replies[0].buffers[0]) == b"abc"
        assert replies[0].started_at <= replies[0].finished_at <= time.monotonic()
        await finish(first, second)

    run(main())


def test_a_call_carries_its_deadline_flags_and_instants(run):
    async def main():
        calls: list[IncomingCall] = []
        first, second = await linked_peers(prepare_other=collect(calls))
        sent_at = time.monotonic()
        future = ask(first, b"m", deadline=1234.5, flags=200)
        ask(first, b"without")
        await until(lambda: len(calls) == 2)
        assert (calls[0].deadline, calls[0].flags, calls[1].deadline) == (1234.5, 200, None)
        assert sent_at <= calls[0].received_at <= time.monotonic()
        calls[0].result(b"")
        reply = await future
        assert reply.started_at == 0.0  # it was never begun
        await finish(first, second)

    run(main())


def test_many_calls_are_answered_out_of_order_and_each_once(run):
    async def main():
        calls: list[IncomingCall] = []
        first, second = await linked_peers(grants=(0, 200), prepare_other=collect(calls))
        answers: list[bytes] = []
        numbers = random.Random(5)
        waiting = list(range(2000))
        while len(answers) < 2000:
            for _ in range(min(first.credits, len(waiting))):
                number = waiting.pop()
                body = [number.to_bytes(4, "little") * numbers.choice([1, 10, 30_000])]
                first.call(str(number).encode(), body, lambda reply: answers.append(reply.meta + reply.buffers[0][:4]))
            await asyncio.sleep(0)
            numbers.shuffle(calls)
            for _ in range(numbers.randint(0, len(calls))):
                call = calls.pop()
                call.begin()
                call.result(call.meta, call.buffers)
        expected = [str(number).encode() + number.to_bytes(4, "little") for number in range(2000)]
        assert sorted(answers) == sorted(expected)
        assert first.in_flight == second.incoming == 0
        await finish(first, second)

    run(main())


def test_failures_carry_code_and_message(run):
    async def main():
        def prepare(peer: Peer) -> None:
            peer.on_call = lambda call: call.fail(ServiceError.code, "it broke: ü")

        first, second = await linked_peers(prepare_other=prepare)
        reply = await ask(first, b"")
        assert (reply.ok, reply.error_code, reply.error_message) == (False, "service_failed", "it broke: ü")
        assert isinstance(reply.error(), ServiceError)
        await finish(first, second)

    run(main())


def test_a_handler_that_raises_fails_its_call_alone(run, caplog):
    async def main():
        def on_call(call: IncomingCall) -> None:
            if call.meta == b"bad":
                raise ValueError("secret detail")
            call.result(b"fine")

        def prepare(peer: Peer) -> None:
            peer.on_call = on_call

        first, second = await linked_peers(prepare_other=prepare)
        bad, good = await asyncio.gather(ask(first, b"bad"), ask(first, b"good"))
        assert bad.error_code == Bug.code
        assert "secret" not in bad.error_message
        assert good.meta == b"fine"
        await finish(first, second)

    run(main())
    assert "secret detail" in caplog.text
    caplog.clear()  # the record holds the call


def test_a_reply_callback_that_raises_costs_no_other_reply(run, caplog):
    async def main():
        first, second = await linked_peers(prepare_other=echo)

        def fail(_: Reply) -> None:
            raise ValueError("in the callback")

        first.call(b"", [], fail)
        assert (await ask(first, b"next")).ok
        await finish(first, second)

    run(main())
    assert "in the callback" in caplog.text


def test_a_peer_without_handler_refuses(run):
    async def main():
        first, second = await linked_peers()
        assert (await ask(first, b"")).error_code == "no_ready_replica"
        await finish(first, second)

    run(main())


def test_an_answer_is_given_once(run):
    async def main():
        calls: list[IncomingCall] = []
        first, second = await linked_peers(prepare_other=collect(calls))
        future = ask(first, b"")
        await until(lambda: calls)
        calls[0].result(b"first")
        with pytest.raises(Bug, match="answered twice"):
            calls[0].fail("bug", "second")
        assert (await future).meta == b"first"
        await finish(first, second)

    run(main())


def test_no_more_calls_than_granted_and_grants_change_live(run):
    async def main():
        calls: list[IncomingCall] = []
        room: list[int] = []
        first, second = await linked_peers(grants=(0, 2), prepare_other=collect(calls))
        first.on_credits = lambda: room.append(first.credits)
        assert first.credits == 2
        assert second.credits == 0
        futures = [ask(first, b"1"), ask(first, b"2")]
        with pytest.raises(QueueFull, match="takes 2 calls"):
            first.call(b"3", [], print)
        await until(lambda: len(calls) == 2)
        second.grant = 5
        await until(lambda: first.credits == 3)
        assert room == [3]
        second.grant = 1
        await until(lambda: first.credits == 0)
        calls[0].result(b"")
        await futures[0]
        assert (first.in_flight, first.credits, room) == (1, 0, [3])
        calls[1].result(b"")
        await until(lambda: len(room) == 2)
        assert room == [3, 1]
        with pytest.raises(InvalidConfig, match="grant"):
            second.grant = 5000
        await finish(first, second)

    run(main())


def test_room_that_was_used_up_and_came_back_in_one_read_is_told(run):
    """What waited for room meanwhile would wait for ever."""
    held: list[IncomingCall] = []
    told: list[int] = []

    async def main():
        peer, other = await linked_peers(grants=(32, 3), prepare_other=collect(held))
        peer.on_credits = lambda: told.append(peer.credits)

        def two_more(_: Reply) -> None:
            for _ in range(2):
                peer.call(b"", (), lambda _: None)
            assert peer.credits == 0

        peer.call(b"", (), two_more)
        peer.call(b"", (), lambda _: None)
        await until(lambda: len(held) == 2)
        for call in held[:2]:
            call.result(b"")
        await until(lambda: told == [1])
        for call in held[2:]:
            call.result(b"")
        await finish(peer, other)

    run(main())


def test_a_cancelled_call_has_no_reply_and_stays_in_flight_until_answered(run):
    async def main():
        calls: list[IncomingCall] = []
        cancelled: list[IncomingCall] = []
        replies: list[Reply] = []
        room: list[int] = []

        def prepare(peer: Peer) -> None:
            def on_call(call: IncomingCall) -> None:
                call.on_cancel = lambda: cancelled.append(call)
                calls.append(call)

            peer.on_call = on_call

        first, second = await linked_peers(grants=(0, 1), prepare_other=prepare)
        first.on_credits = lambda: room.append(first.credits)
        call_id = first.call(b"", [b"x" * 100_000], replies.append)
        await until(lambda: calls)
        first.cancel(call_id)
        first.cancel(call_id)
        first.cancel(12345)
        await until(lambda: cancelled)
        assert calls[0].cancelled
        assert (first.in_flight, first.credits, room) == (1, 0, [])
        calls[0].result(b"late", [b"y" * 100_000])
        await until(lambda: room)
        assert (first.in_flight, room, replies, len(cancelled)) == (0, [1], [], 1)
        calls.clear()
        cancelled.clear()
        gc.collect()
        await until(lambda: second.statistics().slots_in_use == first.statistics().slots_in_use == 0)
        await finish(first, second)

    run(main())


def test_a_call_that_is_asked_to_stop_is_answered_all_the_same(run):
    async def main():
        calls: list[IncomingCall] = []
        cancelled: list[IncomingCall] = []
        replies: list[Reply] = []

        def prepare(peer: Peer) -> None:
            def on_call(call: IncomingCall) -> None:
                call.on_cancel = lambda: cancelled.append(call)
                calls.append(call)

            peer.on_call = on_call

        first, second = await linked_peers(grants=(0, 1), prepare_other=prepare)
        call_id = first.call(b"", [], replies.append)
        await until(lambda: calls)
        first.stop(call_id)
        first.stop(12345)
        await until(lambda: cancelled)
        assert (first.in_flight, replies) == (1, [])
        calls[0].result(b"late")
        await until(lambda: replies)
        assert bytes(replies[0].meta) == b"late"
        first.stop(call_id)
        await finish(first, second)

    run(main())


def test_a_call_cancelled_in_the_turn_it_was_made(run):
    async def main():
        replies: list[Reply] = []
        first, second = await linked_peers(prepare_other=echo)
        first.cancel(first.call(b"", [], replies.append))
        await ask(first, b"")
        assert (replies, first.in_flight) == ([], 0)
        await finish(first, second)

    run(main())


def test_notices_arrive_in_order_with_calls(run):
    async def main():
        seen: list[bytes] = []

        def prepare(peer: Peer) -> None:
            def on_call(call: IncomingCall) -> None:
                seen.append(call.meta)
                call.result(b"")

            peer.on_call, peer.on_notice = on_call, seen.append

        first, second = await linked_peers(prepare_other=prepare)
        first.notify(b"1")
        future = ask(first, b"2")
        first.notify(b"3" * 300_000)
        await future
        await until(lambda: len(seen) == 3)
        assert seen == [b"1", b"2", b"3" * 300_000]
        await finish(first, second)

    run(main())


SHARED = PeerConfig()
INLINE = PeerConfig(shared_memory=SharedMemoryConfig(total_bytes=0))


@pytest.mark.parametrize("config", [SHARED, INLINE], ids=["shared", "inline"])
def test_large_buffers_travel_both_ways(run, config):
    async def main():
        first, second = await linked_peers(prepare_other=echo, config=config)
        numbers = np.random.default_rng(3)
        for sizes in [(70_000,), (65_536, 65_535, 1, 0, 300_001), (20 << 20,), (3, 2 << 20, 0, 5 << 20)]:
            arrays = [numbers.integers(0, 255, size, np.uint8) for size in sizes]
            future = ask(first, b"meta", [memoryview(array) for array in arrays])
            expected = [array.copy() for array in arrays]
            for array in arrays:
                array[:] = 0  # ours again as soon as `call` returned
            reply = await future
            assert [np.array_equal(np.frombuffer(b, np.uint8), e) for b, e in zip(reply.buffers, expected, strict=True)]
            assert all(np.frombuffer(b, np.uint8).ctypes.data % 8 == 0 for b in reply.buffers if len(b))
        used = first.statistics()
        assert (used.buffers_shared > 0) == (config is SHARED)
        assert (used.segments > 0) == (config is SHARED)
        assert used.bytes_inline + used.bytes_shared == 70_000 + 65_536 + 65_535 + 1 + 300_001 + (27 << 20) + 3
        del reply, future
        await asyncio.sleep(0)  # the loop itself holds what woke this task
        assert first.statistics().slots_in_use == second.statistics().slots_in_use == 0
        await finish(first, second)

    run(main())


def test_typed_arrays_of_any_shape_are_taken_and_strided_ones_refused(run):
    async def main():
        first, second = await linked_peers(prepare_other=echo)
        array = np.arange(200_000, dtype=np.float32).reshape(2, -1)
        reply = await ask(first, b"", [memoryview(array), memoryview(np.float64(2.5))])
        assert np.array_equal(np.frombuffer(reply.buffers[0], np.float32).reshape(2, -1), array)
        assert np.frombuffer(reply.buffers[1], np.float64)[0] == 2.5
        with pytest.raises(Bug, match="C-contiguous"):
            first.call(b"", [b"x" * 100_000, memoryview(array.T)], print)
        assert first.in_flight == 0
        del reply
        await asyncio.sleep(0)
        assert first.statistics().slots_in_use == 0
        await finish(first, second)

    run(main())


def test_without_memfd_everything_works_in_frames(run, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError(38, "no memfd here")

    async def main():
        calls: list[IncomingCall] = []
        lost: list[LostCall] = []
        monkeypatch.setattr(os, "memfd_create", refuse)
        first, second = await linked_peers(prepare_other=collect(calls))
        first.on_lost = lost.extend
        begun, held = first.call(b"", [], print), first.call(b"", [], print)
        future = ask(first, b"", [b"z" * 5_000_000])
        await until(lambda: len(calls) == 3)
        calls[0].begin()
        calls[2].begin()
        calls[2].result(b"", calls[2].buffers)
        assert bytes((await future).buffers[0]) == b"z" * 5_000_000
        assert not second.statistics().accept_board
        second.abort()
        await until(lambda: first.closed)
        assert lost == [LostCall(begun, True), LostCall(held, False)]
        await finish(first)

    run(main())


def test_a_side_that_can_map_nothing_gets_and_answers_all_the_same(run, monkeypatch, caplog):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    async def main():
        calls: list[IncomingCall] = []
        lost: list[LostCall] = []
        monkeypatch.setattr("trilith.net.transport.mapped_segments.map_memory", refuse)
        monkeypatch.setattr("trilith.net.transport.accept_board.map_memory", refuse)
        first, second = await linked_peers(prepare_other=collect(calls))
        first.on_lost = lost.extend
        begun, held = first.call(b"", [], print), first.call(b"", [], print)
        future = ask(first, b"", [b"z" * 5_000_000, b"y" * 100_000])
        await until(lambda: len(calls) == 3)
        calls[0].begin()
        calls[2].begin()
        calls[2].result(b"", calls[2].buffers)
        assert [bytes(buffer) for buffer in (await future).buffers] == [b"z" * 5_000_000, b"y" * 100_000]
        assert first.statistics().buffers_shared == second.statistics().buffers_shared == 2
        second.abort()
        await until(lambda: first.closed)
        assert lost == [LostCall(begun, True), LostCall(held, False)]
        await finish(first)

    run(main())


def test_shared_memory_that_is_full_or_kept_falls_back_to_frames(run):
    async def main():
        config = PeerConfig(shared_memory=SharedMemoryConfig(total_bytes=3 << 20))
        first, second = await linked_peers(prepare_other=echo, config=config)
        kept = [await ask(first, b"", [bytes([number]) * 100_000]) for number in range(60)]
        assert all(bytes(reply.buffers[0]) == bytes([number]) * 100_000 for number, reply in enumerate(kept))
        counts = second.statistics()
        assert counts.slots_in_use == counts.buffers_shared == 16
        assert counts.buffers_inline == 44
        kept.clear()
        await asyncio.sleep(0)
        assert second.statistics().slots_in_use == 0
        await ask(first, b"", [b"x" * 100_000])
        assert second.statistics().buffers_shared == 17
        await finish(first, second)

    run(main())


def test_arrays_kept_after_the_call_hold_their_slot_and_threads_may_drop_them(run):
    async def main():
        first, second = await linked_peers(prepare_other=echo)
        slices = []
        for number in range(20):
            reply = await ask(first, b"", [np.full(50_000, number, np.float32).data])
            slices.append(np.frombuffer(reply.buffers[0], np.float32)[100:200])
        del reply
        await asyncio.sleep(0)
        assert second.statistics().slots_in_use == 20
        for _ in range(50):
            await ask(first, b"", [np.full(50_000, 99, np.float32).data])
        assert [part[7] for part in slices] == list(range(20))
        thread = threading.Thread(target=slices.clear)
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        assert second.statistics().slots_in_use == 0
        await finish(first, second)

    run(main())


def test_idle_segments_are_given_back_on_both_sides(run):
    async def main():
        first, second = await linked_peers(prepare_other=echo)
        await ask(first, b"", [b"x" * 100_000])
        assert first.statistics().segment_bytes == second.statistics().mapped_bytes > 0
        first.tick(time.monotonic() + 31.0)
        await ask(first, b"")
        assert first.statistics().segment_bytes == second.statistics().mapped_bytes == 0
        assert (await ask(first, b"", [b"x" * 100_000])).ok
        await finish(first, second)

    run(main())


def test_what_is_over_the_limits_is_refused_here_and_answered_there(run):
    async def main():
        config = PeerConfig(
            limits=FrameLimits(max_frame_bytes=200_000, max_meta_bytes=1000),
            shared_memory=SharedMemoryConfig(total_bytes=3 << 20),
        )

        def prepare(peer: Peer) -> None:
            peer.on_call = lambda call: call.result(b"", [b"x" * 60_000] * 4)

        def in_one_frame(call: IncomingCall) -> None:
            with pytest.raises(PayloadTooLarge):
                call.result_in_one_frame(b"", [b"x" * 60_000] * 4)
            call.result_in_one_frame(b"less")

        first, second = await linked_peers(prepare_other=prepare, config=config)
        for meta, buffers in ((b"m" * 1001, []), (b"m" * 1001, [b"x" * 100_000]), (b"", [b"x" * 60_000] * 4)):
            with pytest.raises(PayloadTooLarge):
                first.call(meta, buffers, print)
        with pytest.raises(PayloadTooLarge):
            first.notify(b"m" * 1001)
        assert first.statistics().slots_in_use == first.in_flight == 0
        reply = await ask(first, b"")
        assert reply.error_code == ServiceError.code
        assert "too large" in reply.error_message
        second.on_call = in_one_frame
        assert (await ask(first, b"")).meta == b"less"
        await finish(first, second)

    run(main())


def test_close_waits_for_calls_of_both_sides(run):
    async def main():
        calls: list[IncomingCall] = []
        lost: list[list[LostCall]] = []
        first, second = await linked_peers(prepare=echo, prepare_other=collect(calls))
        first.on_lost, second.on_lost = lost.append, lost.append
        future = ask(first, b"")
        await until(lambda: calls)
        closing = asyncio.ensure_future(first.close(10.0))
        await until(lambda: second.credits == 0)
        with pytest.raises(Draining):
            first.call(b"", [], print)
        assert not first.closed
        calls[0].result(b"at last")
        assert (await future).meta == b"at last"
        assert await closing == 0
        await until(lambda: second.closed)
        assert lost == [[], []]
        with pytest.raises(ReplicaLost, match="ended"):
            second.call(b"", [], print)
        assert await first.close(1.0) == 0

    run(main())


def test_close_cuts_at_its_deadline_and_the_other_side_may_answer_into_the_void(run):
    async def main():
        calls: list[IncomingCall] = []
        gone: list[str] = []
        first, second = await linked_peers(prepare_other=collect(calls))
        future = ask(first, b"")
        await until(lambda: calls)
        calls[0].on_cancel = lambda: gone.append("cancelled")
        assert await first.close(0.01) == 1
        reply = await future  # nobody set on_lost: the callback gets an error
        assert (reply.ok, reply.error_code) == (False, ReplicaLost.code)
        await until(lambda: second.closed)
        assert gone == ["cancelled"]
        calls[0].result(b"nobody hears this")

    run(main())


def test_calls_that_cross_with_a_close_are_refused_as_draining(run):
    async def main():
        calls: list[IncomingCall] = []
        first, second = await linked_peers(prepare_other=collect(calls))
        ask(second, b"held")  # keeps the close waiting; the first side has no handler and answers it at once
        held = ask(first, b"held")
        await until(lambda: calls)
        future = ask(first, b"crosses")
        closing = asyncio.ensure_future(second.close(5.0))
        assert (await future).error_code == Draining.code
        calls[0].result(b"")
        await held
        assert await closing == 0
        first.abort()

    run(main())


def test_aborting_inside_a_callback_is_safe(run):
    async def main():
        lost: list[LostCall] = []
        first, second = await linked_peers(prepare_other=echo)
        first.on_lost = lost.extend
        first.call(b"", [], lambda reply: first.abort())
        ids = [first.call(b"", [], print) for _ in range(3)]
        await until(lambda: second.closed)
        assert lost == [LostCall(call_id, True) for call_id in ids]
        assert first.lost_reason == "this side aborted the connection"

    run(main())


def test_heartbeats_are_sent_only_when_nothing_else_was(run):
    async def main():
        config = PeerConfig(heartbeat_interval_s=0)
        first, second = await linked_peers(prepare_other=echo, config=config)
        heard_at = second.last_heard_at
        first.tick(time.monotonic() + 1.0)
        await until(lambda: second.last_heard_at > heard_at)
        await finish(first, second)
        beating, other = await linked_peers(config=PeerConfig(heartbeat_interval_s=0.02))
        first_heard_at = other.last_heard_at
        await until(lambda: other.last_heard_at > first_heard_at + 0.05)
        await finish(beating, other)

    run(main())


def test_what_an_operator_sees(run):
    async def main():
        first, second = await linked_peers(grants=(3, 7))
        assert repr(first) == "<Peer 0 in flight, 7 credits, 0 incoming>"
        assert first.statistics().grant == 3
        first.abort()
        assert repr(first) == "<Peer ended: this side aborted the connection>"
        await until(lambda: second.closed)
        assert "closed" in repr(second)

    run(main())
