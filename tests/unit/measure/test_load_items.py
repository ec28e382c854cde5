import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.measure.load.items import is_stream, item_counter

SSE = b": hello\n\ndata: 1\n\nevent: x\ndata: 2\ndata: 3\r\n\r\ndata: 4\n\n"
LINES = b'{"a": 1}\n\n{"a": 2}\r\n3\n'


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([("text/event-stream; charset=utf-8", SSE, 3), ("application/x-ndjson", LINES, 3)]), st.data())
def test_items_are_counted_wherever_the_chunks_end(kind, data):
    content_type, text, number = kind
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=6)))
    counter = item_counter(content_type)
    edges = [0, *cuts, len(text)]
    assert sum(counter.push(text[start:end]) for start, end in itertools.pairwise(edges)) == number


def test_other_answers_are_counted_by_the_piece():
    counter = item_counter("text/plain")
    assert [counter.push(b"a\nb"), counter.push(b"c")] == [1, 1]


@pytest.mark.parametrize(("content_type", "streams"), [("Text/Event-Stream", True), ("application/jsonl", True),
                                                       ("application/json", False), ("", False)])  # fmt: skip
def test_what_is_a_stream_by_what_it_says(content_type, streams):
    assert is_stream(content_type) == streams
