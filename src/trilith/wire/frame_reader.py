"""A stream of bytes, cut into frames.

Rule 1: the owner reads into `buffer()` and reports how much came to `received`; any split of the stream is fine.
Rule 2: small frames are copied once, out of the receive buffer; a large one is received straight into its own memory.
Rule 3: a malformed frame never raises. The frames before it are returned, `failure` says what was wrong, and the
        reader takes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trilith.wire.frames import (
    HEADER,
    HEADER_AND_ENTRY,
    HEADER_BYTES,
    INLINE,
    LAST_KIND,
    Frame,
    FrameLimits,
    MalformedFrame,
    decode_body,
)

_RECEIVE_BYTES: Final = 256 * 1024
_DIRECT_BYTES: Final = 64 * 1024  # an incomplete frame above this gets memory of its own
_PAIR_BYTES: Final = HEADER_AND_ENTRY.size
_SMALL_BYTES: Final = 4096  # frames up to here are cut out by `_cut` itself

_Header = tuple[int, int, int, int, int, int, int, float, float]


def allocate_bytes(size: int) -> memoryview:
    """Writable memory of `size` bytes, zeroed."""
    return memoryview(bytearray(size))


class FrameReader:
    """Cuts what arrives into frames.

    Args:
        limits: a frame over them is malformed.
        allocate: gives writable memory for a large frame; the transport's commits memory only as it fills.

    Attributes:
        failure: what was malformed, or None while all is well.
    """

    def __init__(self, limits: FrameLimits, *, allocate: Callable[[int], memoryview] = allocate_bytes) -> None:
        self.failure: str | None = None
        self._limits = limits
        self._small_bytes = min(_SMALL_BYTES, limits.max_frame_bytes, limits.max_meta_bytes)
        self._allocate = allocate
        self._data = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._data)
        self._end = 0
        self._large: memoryview | None = None
        self._large_header: _Header | None = None
        self._large_end = 0

    def buffer(self) -> memoryview:
        """Where the next bytes of the stream belong; never empty while `failure` is None."""
        if self._large is not None:
            return self._large[self._large_end :]
        return self._view[self._end :]

    def received(self, size: int) -> list[Frame]:
        """Takes note of `size` bytes written to the start of `buffer()`; returns the frames that are complete now."""
        frames: list[Frame] = []
        if self.failure is not None:
            return frames
        try:
            if self._large is not None:
                self._fill_large(size, frames)
            else:
                self._end += size
                self._cut(frames)
        except MalformedFrame as malformed:
            self.failure = str(malformed)
        return frames

    def _fill_large(self, size: int, frames: list[Frame]) -> None:
        large, header = self._large, self._large_header
        self._large_end += size
        if large is None or header is None or self._large_end < len(large):
            return
        self._large = self._large_header = None
        frames.append(_frame(header, large))

    def _cut(self, frames: list[Frame]) -> None:
        start, end, data, view = 0, self._end, self._data, self._view
        small_bytes = self._small_bytes
        while end - start >= HEADER_BYTES:
            if end - start >= _PAIR_BYTES:
                # The ordinary frame has one small inline buffer and is all here: one unpacking and three copies. What
                # does not fit its own numbers exactly takes the general way below, which says what is wrong.
                length, kind, flags, buffer_count, meta_bytes, count, call_id, first, second, size, segment, _ = (
                    HEADER_AND_ENTRY.unpack_from(data, start)
                )
                if (
                    buffer_count == 1
                    and segment == INLINE
                    and length <= small_bytes
                    and length <= end - start
                    and 0 < kind <= LAST_KIND
                ):
                    meta_at = start + _PAIR_BYTES
                    buffer_at = meta_at + meta_bytes + (-meta_bytes & 7)
                    if buffer_at + size + (-size & 7) == start + length:
                        meta = bytes(view[meta_at : meta_at + meta_bytes])
                        buffer = memoryview(data[buffer_at : buffer_at + size])
                        frames.append(Frame(kind, flags, call_id, count, first, second, meta, [buffer]))
                        start += length
                        continue
            header = HEADER.unpack_from(data, start)
            length, kind, flags, buffer_count, meta_bytes, count, call_id, first, second = header
            if length != HEADER_BYTES + meta_bytes or not 0 < kind <= LAST_KIND or length > _DIRECT_BYTES:
                self._check(header)
            if end - start < length:
                if length > _DIRECT_BYTES:
                    self._start_large(header, view[start + HEADER_BYTES : end])
                    start = end
                break
            body = view[start + HEADER_BYTES : start + length]
            if buffer_count:
                frames.append(_frame(header, memoryview(bytearray(body))))
            else:
                frames.append(Frame(kind, flags, call_id, count, first, second, bytes(body), []))
            start += length
        if start < end:
            view[: end - start] = view[start:end]
        self._end = end - start

    def _check(self, header: _Header) -> None:
        length, kind, _, buffer_count, meta_bytes, *_ = header
        limits = self._limits
        if not 0 < kind <= LAST_KIND:
            raise MalformedFrame(f"expected a frame kind from 1 to {LAST_KIND}, got {kind}")
        if length > limits.max_frame_bytes or meta_bytes > limits.max_meta_bytes or buffer_count > limits.max_buffers:
            raise MalformedFrame(
                f"a frame of {length} bytes, {meta_bytes} of metadata and {buffer_count} buffers is over {limits}"
            )
        if buffer_count == 0 and length != HEADER_BYTES + meta_bytes:
            raise MalformedFrame(f"a frame with {meta_bytes} bytes of metadata alone cannot have {length} bytes")
        if length < HEADER_BYTES + meta_bytes:
            raise MalformedFrame(f"a frame of {length} bytes cannot hold {meta_bytes} bytes of metadata")

    def _start_large(self, header: _Header, beginning: memoryview) -> None:
        size = header[0] - HEADER_BYTES
        try:
            self._large = self._allocate(size)
        except (MemoryError, OSError) as error:
            raise MalformedFrame(f"there is no memory for a frame of {size} bytes: {error}") from error
        self._large[: len(beginning)] = beginning
        self._large_header = header
        self._large_end = len(beginning)


def _frame(header: _Header, body: memoryview) -> Frame:
    _, kind, flags, buffer_count, meta_bytes, count, call_id, first, second = header
    if not buffer_count:
        return Frame(kind, flags, call_id, count, first, second, bytes(body), [])
    meta, parts = decode_body(body, buffer_count, meta_bytes)
    return Frame(kind, flags, call_id, count, first, second, meta, parts)
