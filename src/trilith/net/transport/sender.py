"""Frames on their way out: where each buffer travels, and the announcements that shared memory needs.

Rule: when `send` returns, the buffers are the caller's again. Small ones and those for shared memory are copied anyway;
a large one that has to travel in the frame is copied too, unless it cannot change.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Final

from trilith.net.transport.channel import Channel
from trilith.net.transport.config import PeerConfig
from trilith.net.transport.shared_memory import Segment, SegmentPool
from trilith.wire import frames
from trilith.wire.frames import Buffer, SharedPart

_LONGEST_REST_BYTES: Final = frames.HEADER_AND_ENTRY.size + 2 * 7  # of a small frame: what is not metadata or buffer
SLOT_BYTES: Final = struct.Struct("<Q")  # the metadata of a SEGMENT frame


class FrameSender:
    """Encodes frames and hands them to the channel.

    Attributes:
        pool: the shared memory that this side created.
        buffers_inline, bytes_inline, buffers_shared, bytes_shared: what was sent which way.
    """

    __slots__ = (
        "_channel",
        "_limits",
        "_small_bytes",
        "_threshold_bytes",
        "buffers_inline",
        "buffers_shared",
        "bytes_inline",
        "bytes_shared",
        "pool",
    )

    def __init__(self, channel: Channel, config: PeerConfig) -> None:
        self._channel = channel
        self._limits = config.limits
        self._threshold_bytes = config.shared_memory.threshold_bytes
        # Metadata and buffer together; below it a frame is within all limits, and its buffer travels in it.
        self._small_bytes = min(
            frames.LARGEST_SMALL_BYTES,
            self._threshold_bytes - 1,
            self._limits.max_meta_bytes,
            self._limits.max_frame_bytes - _LONGEST_REST_BYTES,
        )
        self.pool = SegmentPool(config.shared_memory, self._announce, self._retire)
        self.buffers_inline = self.bytes_inline = self.buffers_shared = self.bytes_shared = 0

    def send(
        self,
        kind: int,
        call_id: int,
        meta: bytes,
        buffers: Sequence[Buffer] = (),
        *,
        flags: int = 0,
        count: int = 0,
        first: float = 0.0,
        second: float = 0.0,
    ) -> None:
        """Sends one frame at the end of the loop turn. The arguments are those of `frames.encode_with_buffers`.

        Raises:
            PayloadTooLarge: it is over the frame limits.
            Bug: a buffer is not C-contiguous.
        """
        if len(buffers) == 1:
            buffer = buffers[0]  # the ordinary call and answer have one, a small one
            if type(buffer) is not bytes:
                buffer = frames.flat_bytes(buffer)
            if len(meta) + len(buffer) <= self._small_bytes:
                self.buffers_inline += 1
                self.bytes_inline += len(buffer)
                self._channel.send(frames.encode_small(kind, call_id, meta, buffer, flags, count, first, second))
                return
        elif not buffers:
            frames.check_size(frames.HEADER_BYTES + len(meta), len(meta), 0, self._limits)
            self._channel.send(frames.encode(kind, call_id, meta, flags=flags, count=count, first=first, second=second))
            return
        parts: list[Buffer | SharedPart] = []
        try:
            for buffer in buffers:
                parts.append(self._placed(frames.flat_bytes(buffer)))  # noqa: PERF401 - what was placed is taken back below
            pieces = frames.encode_with_buffers(
                kind, call_id, meta, parts, self._limits, flags=flags, count=count, first=first, second=second
            )
        except BaseException:
            for part in parts:
                if isinstance(part, SharedPart):
                    self.pool.take_back(part)
            raise
        for piece in pieces:
            self._channel.send(piece)

    def _placed(self, buffer: Buffer) -> Buffer | SharedPart:
        size = len(buffer)
        if size >= self._threshold_bytes:
            part = self.pool.store(buffer, time.monotonic())
            if part is not None:
                self.buffers_shared += 1
                self.bytes_shared += size
                return part
            buffer = bytes(buffer)  # no copy if it is `bytes` already
        self.buffers_inline += 1
        self.bytes_inline += size
        return buffer

    def _announce(self, segment: Segment, descriptor: int) -> bool:
        size_class = segment.size_class
        meta = SLOT_BYTES.pack(size_class.slot_bytes)
        frame = frames.encode(frames.SEGMENT, segment.index, meta, count=size_class.slots)
        return self._channel.send_descriptor(frame, descriptor)

    def _retire(self, index: int) -> None:
        self._channel.send(frames.encode(frames.RETIRE, index))
