"""What a streaming method and its client agree on, and when a silent stream says something."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import NotAcceptable, UnsupportedMediaType
from trilith.wire.stream_answers import Silence, check_items, chosen_type
from trilith.wire.stream_formats import FORMATS, JSON_LINES, SSE, TEXT

OFFERS = (SSE, JSON_LINES)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [(None, SSE), ("*/*", SSE), (JSON_LINES, JSON_LINES), (f"{SSE};q=0.1, {JSON_LINES}", JSON_LINES)],
)
def test_the_client_chooses(accept, chosen):
    assert chosen_type(accept, OFFERS, "Words.count") == chosen


def test_what_is_not_offered_and_not_taken_is_said_with_what_is():
    with pytest.raises(
        NotAcceptable, match=r"Words\.count streams text/event-stream, application/jsonl; got accept: a/b"
    ):
        chosen_type("a/b", OFFERS, "Words.count")
    check_items("Application/JSONL; charset=utf-8", OFFERS, "Words.total")
    with pytest.raises(UnsupportedMediaType, match=r"Words\.total takes .* as the body: .*; got no Content-Type"):
        check_items("", OFFERS, "Words.total")


@given(
    st.floats(0.01, 100),
    st.lists(st.tuples(st.floats(0.001, 50), st.booleans()), max_size=20),
)
def test_a_silent_stream_says_something_in_time_and_one_that_writes_says_nothing(every_s, steps):
    now = 1000.0
    silence = Silence(FORMATS[SSE], every_s, now)
    for later_s, wrote in steps:
        now += later_s
        assert silence.is_over(now) == (now - silence.wrote_at >= every_s)
        if wrote or silence.is_over(now):
            silence.wrote_at = now
        assert 0 < silence.left_s(now) <= every_s + 1e-6
        assert silence.is_over(now + silence.left_s(now) + 1e-6)


@pytest.mark.parametrize(("form", "every_s"), [(None, 1.0), (FORMATS[TEXT], 1.0), (FORMATS[SSE], 0.0)])
def test_some_streams_are_silent_for_as_long_as_they_like(form, every_s):
    silence = Silence(form, every_s, 0.0)
    assert silence.may_last
    assert silence.left_s(1e9) == math.inf
    assert not silence.is_over(1e9)
