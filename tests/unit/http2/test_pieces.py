"""Pieces of bodies and messages: nothing is lost, and what is held costs what it weighs."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.wire.grpc_messages import MessageReader, message_prefix
from trilith.wire.http1 import HttpLimits, InboundBody, RequestReader
from trilith.wire.pieces import Pieces

SIZES = st.sampled_from([0, 1, 2, 100, 4095, 4096, 5000, 70_000])
COUNT = 50_000


@given(st.lists(st.one_of(SIZES, st.just("whole")), max_size=40))
def test_all_pieces_come_out_in_order(steps: list[int | str]) -> None:
    pieces, sent = Pieces(), b""
    for number, step in enumerate(steps):
        if isinstance(step, int):
            piece = bytes([number]) * step
            pieces.add(piece)
            sent += piece
        else:
            assert pieces.whole() == sent
        assert pieces.size_bytes == len(sent)
    assert pieces.whole() == sent
    assert pieces.whole() is pieces.whole()
    pieces.clear()
    assert (pieces.size_bytes, pieces.whole()) == (0, b"")


LARGE = st.sampled_from([1, 5000, 300_000, 1 << 20, 3 << 20])


@given(st.lists(LARGE, max_size=8), st.integers(0, 8))
def test_what_is_wanted_whole_is_joined_as_it_comes(sizes: list[int], said_at: int) -> None:
    pieces, sent = Pieces(), b""
    for number, size in enumerate(sizes):
        pieces.gathers = number >= said_at
        pieces.add(piece := bytes([number + 1]) * size)
        sent += piece
    whole = pieces.whole()
    assert whole == sent
    assert pieces.size_bytes == len(sent)
    if isinstance(whole, memoryview):
        assert whole.readonly
    pieces.clear()
    assert whole == sent  # it stays for whoever has it
    assert pieces.whole() == b""


def test_a_large_body_is_not_copied_at_its_end() -> None:
    body = InboundBody(1 << 30)
    body.gather()
    for _ in range(64):
        body.add(bytes(1 << 18))
    tracemalloc.start()
    try:
        whole = body.whole()
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
    assert len(whole) == 16 << 20


def test_one_piece_is_not_copied() -> None:
    pieces, piece = Pieces(), bytes(10)
    pieces.add(b"")
    pieces.add(piece)
    assert pieces.whole() is piece


class _Sink:
    """Keeps the body as a request does."""

    def __init__(self) -> None:
        self.body = InboundBody(1 << 30)

    def head_received(self, reader: RequestReader) -> None:
        """For the reader."""

    def body_received(self, chunk: bytes) -> None:
        """For the reader."""
        self.body.add(chunk)

    def message_received(self) -> None:
        """For the reader."""


def _chunked() -> tuple[object, Callable[[bytes], object]]:
    sink = _Sink()
    reader = RequestReader(sink, HttpLimits())
    reader.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    return (sink, reader), lambda piece: reader.feed(b"2\r\n%b\r\n" % piece)


def _frames() -> tuple[object, Callable[[bytes], object]]:
    body = InboundBody(1 << 30)
    return body, body.add


def _message() -> tuple[object, Callable[[bytes], object]]:
    reader = MessageReader(1 << 30)
    reader.feed(message_prefix(1 << 29))
    return reader, reader.feed


@pytest.mark.parametrize("begin", [_chunked, _frames, _message])
def test_tiny_pieces_cost_what_they_weigh(begin: Callable[[], tuple[object, Callable[[bytes], object]]]) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept, feed = begin()
        for number in range(COUNT):
            feed(number.to_bytes(2, "big"))
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    assert held - before < 2 * COUNT * 1.5 + 50_000
