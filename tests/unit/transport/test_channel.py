"""The channel's writes: few of them in one turn of the loop, and no caller is told of one while it is still sending."""

import asyncio
import socket

from trilith.net.transport.channel import Channel
from trilith.wire import frames
from trilith.wire.frame_reader import FrameReader
from trilith.wire.frames import FrameLimits


class _Ends:
    """A channel and the bare socket at its other side."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair(socket.AF_UNIX)
        self.theirs.setblocking(False)
        self.written: list[int] = []
        self.channel = Channel(
            ours,
            FrameReader(FrameLimits()),
            on_frames=lambda received, now: None,
            on_end=lambda reason, broken: None,
            on_written=self.written.append,
        )
        self.channel.start()

    def received(self) -> bytes:
        try:
            return self.theirs.recv(1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.channel.close()
        self.theirs.close()


def _frame(number: int) -> bytes:
    return frames.encode(frames.NOTICE, number, b"hello")


def test_one_frame_leaves_at_the_end_of_the_turn() -> None:
    asyncio.run(_one_frame_leaves_at_the_end_of_the_turn())


async def _one_frame_leaves_at_the_end_of_the_turn() -> None:
    ends = _Ends()
    ends.channel.send(_frame(1))
    assert ends.received() == b""
    await asyncio.sleep(0)
    assert ends.received() == _frame(1)
    assert ends.written == [len(_frame(1))]
    ends.close()


def test_the_other_side_has_work_before_a_long_turn_ends() -> None:
    asyncio.run(_the_other_side_has_work_before_a_long_turn_ends())


async def _the_other_side_has_work_before_a_long_turn_ends() -> None:
    ends = _Ends()
    sent = [_frame(number) for number in range(100)]
    for frame in sent:
        ends.channel.send(frame)
    early = ends.received()
    assert sum(map(len, sent)) - 20 * len(sent[0]) < len(early) < sum(map(len, sent))
    assert ends.written == []  # told later: whoever sends may be between two pieces of one frame
    await asyncio.sleep(0)
    assert early + ends.received() == b"".join(sent)
    assert sum(ends.written) == sum(map(len, sent))
    assert ends.channel.unsent_bytes == 0
    ends.close()


def test_a_side_that_does_not_read_gets_the_rest_in_order_later() -> None:
    asyncio.run(_a_side_that_does_not_read_gets_the_rest_in_order_later())


async def _a_side_that_does_not_read_gets_the_rest_in_order_later() -> None:
    ends = _Ends()
    sent = [bytes([number]) * 40_000 for number in range(64)]
    for piece in sent:
        ends.channel.send(piece)
    assert ends.channel.unsent_bytes > 0
    received = b""
    while len(received) < 64 * 40_000:
        await asyncio.sleep(0)
        received += ends.received()
    assert received == b"".join(sent)
    assert sum(ends.written) == len(received)
    ends.close()
