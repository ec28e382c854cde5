"""Whatever comes over the socket, the connection ends in order: one logged reason, no exception, no descriptor kept."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import struct
from pathlib import Path

import pytest
from waiting import until

from trilith.net.transport import IncomingCall, LostCall, Peer, PeerConfig, SharedMemoryConfig, peer_from_socket
from trilith.net.transport.accept_board import AcceptBoard
from trilith.net.transport.descriptors import create_memory
from trilith.wire import frames
from trilith.wire.frames import FrameLimits, SharedPart

HELLO = frames.encode(frames.HELLO, frames.MAGIC, count=frames.PROTOCOL_VERSION)
GREETING = HELLO + frames.encode(frames.CREDIT, count=4)
SHARED = b"".join(frames.encode_with_buffers(frames.CALL, 1, b"", [SharedPart(0, 0, 10)], FrameLimits()))


class Victim:
    """A peer whose other end is a plain socket in the hands of the test."""

    def __init__(self, config: PeerConfig | None = None, grant: int = 2) -> None:
        self.lost: list[list[LostCall]] = []
        self.calls: list[IncomingCall] = []
        self.rogue, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.rogue.setblocking(False)
        self.peer = peer_from_socket(near, grant=grant, prepare=self._prepare, config=config)

    def _prepare(self, peer: Peer) -> None:
        peer.on_lost, peer.on_call = self.lost.append, self.calls.append

    async def ended(self) -> str:
        await until(lambda: self.peer.closed)
        self.rogue.close()
        assert self.lost == [[]]
        return self.peer.lost_reason


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", "frame kind"),
        (bytes(40), "frame kind"),
        (frames.encode(frames.CREDIT, count=4), "greeting"),
        (frames.encode(frames.HELLO, 1, count=frames.PROTOCOL_VERSION), "greeting"),
        (frames.encode(frames.HELLO, frames.MAGIC, count=99), "protocol version 2, got 99"),
        (frames.encode(frames.HELLO, frames.MAGIC, count=frames.PROTOCOL_VERSION, flags=1), "without its descriptor"),
        (HELLO + HELLO, "kind 9 in the middle"),
        (GREETING + frames.encode(frames.RESULT, 77), "not in flight"),
        (GREETING + frames.encode(frames.ERROR, 77), "not in flight"),
        (GREETING + frames.encode(frames.CALL, 1) * 2, "sent twice"),
        (GREETING + frames.encode(frames.ITEM, 77), "not in flight"),
        (GREETING + frames.encode(frames.CALL, 1) + frames.encode(frames.END, 1), "has no items"),
        (GREETING + frames.encode(frames.CALL, 1, count=1, second=-1.0), "was granted"),
        (
            GREETING
            + frames.encode(frames.CALL, 1, count=1, second=9.0)
            + frames.encode(frames.ITEM, 1, flags=frames.FROM_CALLER),
            "nobody asked for",
        ),
        (GREETING + b"".join(frames.encode(frames.CALL, number) for number in range(3)), "that were granted"),
        (GREETING + frames.encode(frames.SEGMENT, 0, struct.pack("<Q", 4096), count=1), "without its descriptor"),
        (GREETING + frames.encode(frames.RETIRE, 3), "to retire"),
        (GREETING + SHARED, "no shared segment 0"),
        (GREETING + struct.pack("<I", 2**32 - 1) + SHARED[4:], "over FrameLimits"),
    ],
)
def test_a_broken_protocol_ends_the_connection_with_one_logged_reason(run, caplog, wire, says):
    async def main():
        victim = Victim()
        victim.rogue.send(wire)
        assert says in await victim.ended()

    with caplog.at_level(logging.DEBUG, "trilith"):
        run(main())
    assert [(record.name, record.levelname) for record in caplog.records] == [("trilith.transport", "ERROR")]
    assert says in caplog.text


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_after_a_greeting(run, seed):
    async def main():
        victim = Victim()
        numbers = random.Random(seed)
        garbage = bytearray(GREETING + b"".join(frames.encode(numbers.randint(0, 12), 1) for _ in range(200)))
        for _ in range(100):
            garbage[numbers.randrange(len(GREETING), len(garbage))] = numbers.randrange(256)
        victim.rogue.send(garbage)
        victim.rogue.shutdown(socket.SHUT_WR)
        await victim.ended()

    run(main())


def test_what_was_good_before_the_garbage_is_served(run):
    async def main():
        victim = Victim()
        victim.rogue.send(GREETING + frames.encode(frames.CALL, 5, b"good") + b"\xff" * 100)
        await victim.ended()
        assert [call.meta for call in victim.calls] == [b"good"]
        assert victim.calls[0].cancelled

    run(main())


def test_descriptors_that_belong_to_nothing_are_closed(run):
    async def main():
        victim = Victim()
        victim.rogue.send(GREETING)
        for _ in range(4):
            socket.send_fds(victim.rogue, [frames.encode(frames.HEARTBEAT)], [0] * 20)
        assert "too many were sent" in await victim.ended()

    run(main())


def test_more_descriptors_than_fit_end_the_connection(run):
    async def main():
        victim = Victim()
        socket.send_fds(victim.rogue, [GREETING], [0] * 200)
        assert "descriptors" in await victim.ended()

    run(main())


@pytest.mark.parametrize("size", [0, 100, 1 << 20])
def test_an_unsealed_or_wrong_board_is_refused(run, size):
    async def main():
        victim = Victim()
        descriptor = os.memfd_create("rogue", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        socket.send_fds(
            victim.rogue,
            [frames.encode(frames.HELLO, frames.MAGIC, count=frames.PROTOCOL_VERSION, flags=1)],
            [descriptor],
        )
        os.close(descriptor)
        assert "shared segment" in await victim.ended()

    run(main())


def test_a_segment_of_another_size_than_announced_is_refused(run):
    async def main():
        victim = Victim()
        descriptor, memory = create_memory("rogue", 8192)
        memory.close()
        frame = frames.encode(frames.SEGMENT, 0, struct.pack("<Q", 1 << 20), count=8)
        socket.send_fds(victim.rogue, [GREETING + frame], [descriptor])
        os.close(descriptor)
        assert "expected a shared segment" in await victim.ended()

    run(main())


def test_bad_segment_metadata_is_refused(run):
    async def main():
        victim = Victim()
        descriptor, memory = create_memory("rogue", 8192)
        memory.close()
        socket.send_fds(victim.rogue, [GREETING + frames.encode(frames.SEGMENT, 0, b"123", count=8)], [descriptor])
        os.close(descriptor)
        assert "bytes about a segment" in await victim.ended()

    run(main())


def test_a_frame_that_never_ends_costs_no_memory(run):
    async def main():
        victim = Victim()
        before_bytes = resident_bytes()
        head = frames.HEADER.pack(1 << 30, frames.CALL, 0, 1, 0, 0, 1, 0.0, 0.0)
        victim.rogue.send(GREETING + head + b"x" * 1000)
        await until(lambda: victim.peer.statistics().bytes_received == len(GREETING + head) + 1000)
        assert resident_bytes() - before_bytes < 100 << 20
        victim.rogue.shutdown(socket.SHUT_WR)
        await victim.ended()

    run(main())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_worker_that_marks_what_it_likes_harms_nobody(run):
    async def main():
        board = AcceptBoard.create()
        assert board is not None
        board[0].mark(2**64 - 1)
        assert not board[0].is_marked(12345)
        os.close(board[1])

    run(main())


async def read_all(sock: socket.socket, size: int) -> bytearray:
    loop = asyncio.get_running_loop()
    found = bytearray()
    while len(found) < size:
        found += await loop.sock_recv(sock, 1 << 20)
    return found


NO_SHARED_MEMORY = SharedMemoryConfig(total_bytes=0)


def test_a_peer_that_does_not_read_gets_no_more_calls_and_all_of_them_in_order_later(run):
    async def main():
        config = PeerConfig(shared_memory=NO_SHARED_MEMORY, high_water_bytes=1 << 20)
        victim = Victim(config)
        victim.rogue.send(HELLO + frames.encode(frames.CREDIT, count=1000))
        await victim.peer.wait_greeted()
        peer, room = victim.peer, []
        peer.on_credits = lambda: room.append(peer.credits)
        sent = 0
        while peer.credits:
            peer.call(str(sent).encode(), [bytes([sent]) * 100_000], print)
            sent += 1
            await asyncio.sleep(0)
        assert not peer.writable
        assert 10 <= sent <= 20
        assert 1 << 20 <= peer.statistics().unsent_bytes <= (1 << 20) + 101_000
        wire = await read_all(victim.rogue, peer.statistics().bytes_sent + peer.statistics().unsent_bytes)
        assert peer.writable
        assert room == [1000 - sent]
        places = [wire.index(bytes([number]) * 100_000) for number in range(sent)]
        assert places == sorted(places)
        victim.rogue.close()
        await until(lambda: peer.closed)
        assert len(victim.lost[0]) == sent

    run(main())


def test_answers_that_nobody_reads_are_bounded(run):
    async def main():
        config = PeerConfig(shared_memory=NO_SHARED_MEMORY, max_unsent_bytes=1 << 20)
        victim = Victim(config, grant=50)
        victim.rogue.send(GREETING + b"".join(frames.encode(frames.CALL, number) for number in range(50)))
        await until(lambda: len(victim.calls) == 50)
        for call in victim.calls:
            call.result(b"", [b"x" * 100_000])
            await asyncio.sleep(0)
        assert "does not read" in await victim.ended()

    run(main())


def test_what_a_peer_sent_before_it_went_is_read_though_writing_fails(run):
    async def main():
        victim = Victim(PeerConfig(shared_memory=NO_SHARED_MEMORY))
        victim.rogue.send(GREETING)
        await victim.peer.wait_greeted()
        replies = []
        before_bytes = victim.peer.statistics().bytes_sent
        call_id = victim.peer.call(b"", [], replies.append)
        await until(lambda: victim.peer.statistics().bytes_sent > before_bytes)
        victim.rogue.send(frames.encode(frames.RESULT, call_id, b"last words"))
        victim.rogue.close()
        victim.peer.notify(b"nobody reads this")
        victim.peer.notify(b"nor this" * 100_000)
        await victim.ended()
        assert [reply.meta for reply in replies] == [b"last words"]

    run(main())


def test_the_end_of_a_peer_that_left_much_unread_is_seen_though_nothing_is_written(run):
    async def main():
        config = PeerConfig(heartbeat_interval_s=0)
        victim = Victim(config)
        victim.rogue.send(GREETING)
        await victim.peer.wait_greeted()
        replies = []
        before_bytes = victim.peer.statistics().bytes_sent
        call_id = victim.peer.call(b"never read", [], replies.append)
        await until(lambda: victim.peer.statistics().bytes_sent > before_bytes)
        victim.rogue.send(frames.encode(frames.RESULT, call_id, b"x" * 150_000))
        victim.rogue.close()
        async with asyncio.timeout(0.9):
            await victim.ended()
        assert len(replies) == 1

    run(main())
