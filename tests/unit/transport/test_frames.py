"""The codec: what is encoded comes back, however the stream is split; what is malformed never raises."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.errors import Bug, InvalidConfig, PayloadTooLarge
from trilith.wire import frames
from trilith.wire.frame_reader import FrameReader
from trilith.wire.frames import Frame, FrameLimits, SharedPart

LIMITS = FrameLimits(max_frame_bytes=4 << 20, max_meta_bytes=1 << 20, max_buffers=64)

u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
shared_parts = st.builds(SharedPart, st.integers(0, 2**32 - 2), u32, u64)
parts = st.lists(st.one_of(st.binary(max_size=300), shared_parts), max_size=6)


@st.composite
def sent_frames(draw: st.DrawFn) -> tuple[bytes, Frame]:
    """A frame's bytes and what should be read from them."""
    kind, call_id = draw(st.integers(1, frames.LAST_KIND)), draw(u64)
    flags, count = draw(st.integers(0, 255)), draw(u32)
    first = draw(st.floats(allow_nan=False))
    second = draw(st.floats(allow_nan=False))
    meta, buffers = draw(st.binary(max_size=200)), draw(parts)
    if buffers and draw(st.booleans()):  # one that is received into memory of its own
        buffers[0] = bytes([call_id % 256]) * draw(st.integers(65_000, 400_000))
    if buffers:
        pieces = frames.encode_with_buffers(
            kind, call_id, meta, buffers, LIMITS, flags=flags, count=count, first=first, second=second
        )
        wire = b"".join(pieces)
    else:
        wire = frames.encode(kind, call_id, meta, flags=flags, count=count, first=first, second=second)
    return wire, Frame(kind, flags, call_id, count, first, second, meta, buffers)


def feed(reader: FrameReader, stream: bytes, split: list[int]) -> list[Frame]:
    """Reads the stream in pieces of the given sizes, in turn; never more than the reader has room for."""
    found, position, turn = [], 0, 0
    while position < len(stream) and reader.failure is None:
        room = reader.buffer()
        assert len(room) > 0
        size = min(split[turn % len(split)], len(room), len(stream) - position)
        room[:size] = stream[position : position + size]
        found += reader.received(size)
        position += size
        turn += 1
    return found


@settings(max_examples=60)
@given(
    st.lists(sent_frames(), min_size=1, max_size=5),
    st.lists(st.one_of(st.integers(1, 200), st.integers(1000, 300_000)), min_size=1, max_size=5),
)
def test_what_is_sent_is_read_however_the_stream_is_split(sent, split):
    if len(stream := b"".join(wire for wire, _ in sent)) > 100_000:
        split = [size * 50 for size in split]
    found = feed(FrameReader(LIMITS), stream, split)
    assert found == [frame for _, frame in sent]


def test_received_buffers_are_aligned_and_writable():
    wire = b"".join(frames.encode_with_buffers(frames.CALL, 1, b"12345", [b"abc", b"x" * 16, b"y" * 9], LIMITS))
    (frame,) = feed(FrameReader(LIMITS), wire, [len(wire)])
    for part in frame.parts:
        assert np.frombuffer(part, np.uint8).ctypes.data % 8 == 0
        part[0] = 7


@given(st.binary(max_size=400), st.integers(1, 500))
def test_garbage_never_raises(garbage, split):
    reader = FrameReader(LIMITS)
    feed(reader, garbage, [split])
    assert reader.failure is None or "frame" in reader.failure or "body" in reader.failure or "buffer" in reader.failure


@settings(max_examples=200)
@given(sent_frames(), st.integers(0, 39), st.integers(1, 255))
def test_a_damaged_header_never_raises_and_never_reads_past_the_limits(sent, position, damage):
    wire = bytearray(sent[0])
    wire[position] ^= damage
    reader = FrameReader(LIMITS)
    feed(reader, bytes(wire), [70_000])
    assert len(reader.buffer()) <= LIMITS.max_frame_bytes


def header(length: int, kind: int = frames.CALL, buffers: int = 0, meta: int = 0) -> bytes:
    return frames.HEADER.pack(length, kind, 0, buffers, meta, 0, 1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (header(40, kind=0), "kind"),
        (header(40, kind=frames.LAST_KIND + 1), "kind"),
        (header(39), "cannot have 39 bytes"),
        (header(0), "cannot have 0 bytes"),
        (header(48), "cannot have 48 bytes"),
        (header((4 << 20) + 1, buffers=1), "over FrameLimits"),
        (header(40 + (1 << 20) + 1, meta=(1 << 20) + 1), "over FrameLimits"),
        (header(4000, buffers=65), "over FrameLimits"),
        (header(44, meta=10, buffers=1), "cannot hold 10 bytes"),
        (header(40, buffers=1), "do not fit a body of 0 bytes"),
        (header(56, buffers=1) + struct.pack("<QII", 8, frames.INLINE, 0), "ends outside"),
        (header(64, buffers=1) + struct.pack("<QII", 0, frames.INLINE, 0) + b"12345678", "by its own table"),
        (header(56, buffers=1) + struct.pack("<QII", 2**64 - 8, frames.INLINE, 0), "ends outside"),
    ],
)
def test_malformed_frames_end_the_stream_after_the_good_ones(wire, says):
    good = frames.encode(frames.NOTICE, 0, b"good")
    reader = FrameReader(LIMITS)
    found = feed(reader, good + wire + good, [10_000])
    assert [frame.meta for frame in found] == [b"good"]
    assert says in reader.failure
    assert reader.received(40) == []


def test_no_memory_for_a_large_frame_is_a_failure_of_the_stream():
    def refuse(size: int) -> memoryview:
        raise MemoryError("none left")

    reader = FrameReader(LIMITS, allocate=refuse)
    feed(reader, header(200_000, buffers=1), [40])
    assert "no memory for a frame" in reader.failure


@pytest.mark.parametrize(
    ("meta", "buffers"), [(b"", [b"x" * (4 << 20)]), (b"m" * ((1 << 20) + 1), [b"x"]), (b"", [b"x"] * 65)]
)
def test_what_is_over_the_limits_is_not_sent(meta, buffers):
    with pytest.raises(PayloadTooLarge, match="expected at most"):
        frames.encode_with_buffers(frames.CALL, 1, meta, buffers, LIMITS)


@pytest.mark.parametrize("wrong", [{"max_frame_bytes": 1 << 32}, {"max_meta_bytes": 0}, {"max_buffers": 1 << 16}])
def test_limits_that_the_header_cannot_hold_are_refused(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        FrameLimits(**wrong)


def test_a_large_piece_is_not_copied():
    large = b"x" * 200_000
    pieces = frames.encode_with_buffers(frames.CALL, 1, b"m", [b"small", large, b"tail"], LIMITS)
    assert any(piece is large for piece in pieces)
    assert len(pieces) == 3


def test_flat_bytes_takes_any_contiguous_memory():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert bytes(frames.flat_bytes(memoryview(array))) == array.tobytes()
    assert frames.flat_bytes(memoryview(np.empty((0, 3)))) == b""
    assert len(frames.flat_bytes(memoryview(np.float64(1.0)))) == 8
    with pytest.raises(Bug, match="C-contiguous"):
        frames.flat_bytes(memoryview(array.T))


@given(st.sampled_from(["bug", "model_failed"]), st.text(max_size=50), st.sampled_from([None, 0.0, 1.5, 60.0]))
def test_errors_round_trip(code, message, again):
    assert frames.decode_error(frames.encode_error(code, message, again)) == (
        code,
        message.encode(errors="replace").decode(),
        again,
    )


@given(st.binary(max_size=40))
def test_any_metadata_reads_as_some_error(meta):
    code, message, again = frames.decode_error(meta)
    assert isinstance(code + message, str)
    assert again is None or isinstance(again, float)


def test_a_very_long_error_message_is_cut():
    assert len(frames.encode_error("bug", "x" * 10**6)) < 20_000


def test_an_absent_deadline_is_infinity():
    (frame,) = feed(FrameReader(LIMITS), frames.encode(frames.CALL, 1, first=math.inf), [40])
    assert frame.first == math.inf


@given(sent_frames(), st.binary(max_size=300))
def test_small_frames_are_those_of_the_general_way(sent, buffer):
    _, frame = sent
    numbers = {"flags": frame.flags, "count": frame.count, "first": frame.first, "second": frame.second}
    general = frames.encode_with_buffers(frame.kind, frame.call_id, frame.meta, [buffer], LIMITS, **numbers)
    assert [frames.encode_small(frame.kind, frame.call_id, frame.meta, buffer, **numbers)] == general


@settings(max_examples=300)
@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 55), st.integers(1, 255))
def test_small_frames_are_read_as_by_the_general_way(meta, buffer, position, damage):
    wire = bytearray(frames.encode_small(frames.CALL, 7, meta, buffer, 1, 2, 3.0, 4.0))
    for _ in range(2):  # as it is, and damaged
        small, general = FrameReader(LIMITS), FrameReader(LIMITS)
        found = feed(small, bytes(wire) + bytes(100), [len(wire) + 100])
        general._small_bytes = 0
        expected = feed(general, bytes(wire) + bytes(100), [len(wire) + 100])
        assert (found, small.failure) == (expected, general.failure)
        wire[position] ^= damage
