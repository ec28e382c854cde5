"""Framing: what is framed is read back, however the text is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import PayloadTooLarge
from trilith.wire.accept import best
from trilith.wire.json_lines import LineSplitter
from trilith.wire.sse import EventReader
from trilith.wire.stream_formats import FORMATS, JSON_LINES, SSE, TEXT, event

values = st.recursive(
    st.one_of(st.none(), st.integers(-(2**53), 2**53), st.text(max_size=20)), lambda inner: st.lists(inner, max_size=3)
)
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def pieces(text: bytes, sizes: list[int]) -> list[bytes]:
    found, at, turn = [], 0, 0
    while at < len(text):
        found.append(text[at : at + sizes[turn % len(sizes)]])
        at += sizes[turn % len(sizes)]
        turn += 1
    return found


@given(st.lists(values, max_size=8), cuts)
def test_json_lines_come_back_however_they_are_cut(items, sizes):
    text = b"".join(FORMATS[JSON_LINES].item(json.dumps(item).encode()) for item in items)
    splitter = LineSplitter()
    found = [line for piece in pieces(text, sizes) for line in splitter.push(piece)] + splitter.finish()
    assert [json.loads(line) for line in found] == items


def test_lines_of_blanks_are_none_and_the_last_one_needs_no_end():
    splitter = LineSplitter()
    assert splitter.push(b"1\r\n\n  \n2") == [b"1"]
    assert splitter.finish() == [b"2"]
    assert splitter.finish() == []


@pytest.mark.parametrize("text", [b"x" * 11, b"x" * 11 + b"\n", b"1\n" + b"x" * 11 + b"\n2"])
def test_a_line_that_is_too_long_is_refused(text):
    with pytest.raises(PayloadTooLarge, match="longer than 10 bytes"):
        LineSplitter(10).push(text)


@given(st.lists(st.tuples(st.sampled_from([b"", b"error"]), st.text(max_size=30)), max_size=8), cuts)
def test_events_come_back_however_they_are_cut(sent, sizes):
    text = b"".join(event(data.encode(), name) + FORMATS[SSE].keep_alive for name, data in sent)
    reader = EventReader()
    found = [one for piece in pieces(text, sizes) for one in reader.push(piece)]
    lines = [(name or b"message", data.replace("\r\n", "\n").replace("\r", "\n").encode()) for name, data in sent]
    assert found == lines


def test_events_of_other_servers_are_read():
    reader = EventReader()
    assert reader.push(b"\xef\xbb\xbf: hello\r\nid: 7\r\ndata:a\r\ndata: b\r\r\n") == [(b"message", b"a\nb")]
    assert reader.push(b"event: x\nretry: 5\n\ndata\n\n") == [(b"message", b"")]
    assert reader.push(b"data: cut off") == []


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        (None, SSE),
        ("", SSE),
        ("*/*", SSE),
        ("application/jsonl", JSON_LINES),
        ("text/*", SSE),
        ("text/plain", TEXT),
        ("application/*;q=0.5, text/event-stream;q=0.4", JSON_LINES),
        ("image/png", None),
        ("text/event-stream;q=0", None),
    ],
)
def test_what_is_accepted_is_chosen(accept, found):
    assert best(accept, (SSE, JSON_LINES, TEXT)) == found
