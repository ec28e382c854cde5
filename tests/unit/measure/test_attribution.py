from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core import timeline as vocabulary
from trilith.core.timeline import ANSWERED, BATCHED, INFER, INPUT, QUEUED, RECEIVED, SENT, STARTED, Timeline
from trilith.measure import SpanKey, attribute

WAITS = {BATCHED, SENT, STARTED}
STAGES = sorted({value for name, value in vars(vocabulary).items() if name.isupper() and isinstance(value, str)})


def timeline(name, floor, stamps, children=()):
    made = Timeline(name, floor)
    made.stamps = [(stage, float(instant)) for stage, instant in stamps]
    made.children = list(children)
    return made


def seconds(request):
    return {span.key: span.seconds for span in attribute(request)}


@st.composite
def timelines(draw, depth=2, ordered=True):
    """Calls with calls under them, at whole instants: in parallel, outside of their caller, without stamps."""
    instants = draw(st.lists(st.integers(0, 20), max_size=5))
    stages = draw(st.lists(st.sampled_from(STAGES), min_size=len(instants), max_size=len(instants)))
    stamps = zip(stages, sorted(instants) if ordered else instants, strict=True)
    children = draw(st.lists(timelines(depth - 1, ordered), max_size=3)) if depth else []
    return timeline(draw(st.sampled_from("ab")), draw(st.integers(1, 3)), stamps, children)


def active(call, instant):
    """Every span that is itself active from `instant` to the next whole one."""
    covered = any(nested.stamps and nested.stamps[0][1] <= instant < nested.stamps[-1][1] for nested in call.children)
    for (earlier, start), (later, end) in itertools.pairwise(call.stamps):
        if start <= instant < end and not covered:
            yield SpanKey(call.floor, call.name, earlier, later, later in WAITS)
    for nested in call.children:
        yield from active(nested, instant)


def counted_by_hand(request):
    """The rules of attribution, instant by instant."""
    counted = defaultdict(float)
    for instant in range(int(request.stamps[0][1]), int(request.stamps[-1][1])) if request.stamps else ():
        spans = list(active(request, instant))
        first = min((key.waiting, key.floor) for key in spans)
        equal = [key for key in spans if (key.waiting, key.floor) == first]
        for key in equal:
            counted[key] += 1 / len(equal)
    return counted


@given(timelines())
def test_each_instant_counts_for_the_lowest_floor_that_computes_else_for_what_waits(request_):
    found = {key: spent for key, spent in seconds(request_).items() if spent}
    assert found == pytest.approx(dict(counted_by_hand(request_)))


@given(timelines(ordered=False))
def test_nothing_is_negative_and_all_adds_up_whatever_the_stamps(request_):
    if request_.duration() < 0:
        with pytest.raises(ValueError, match="earlier than the first"):
            attribute(request_)
        return
    found = attribute(request_)
    assert all(span.seconds >= 0 and min(span.calls_s) >= 0 for span in found)
    assert sum(span.seconds for span in found) == pytest.approx(request_.duration())


@given(timelines(), st.randoms(use_true_random=False))
def test_the_order_of_calls_does_not_matter(request_, random):
    before = attribute(request_)
    pending = [request_]
    while pending:
        call = pending.pop()
        random.shuffle(call.children)
        pending.extend(call.children)
    after = {span.key: span for span in attribute(request_)}
    assert after.keys() == {span.key for span in before}
    for span in before:
        assert after[span.key].seconds == pytest.approx(span.seconds)
        assert sorted(after[span.key].calls_s) == pytest.approx(sorted(span.calls_s))


@st.composite
def one_thing_at_a_time(draw, start=0.0, depth=2):
    """A call whose calls follow each other within it."""
    call = Timeline(draw(st.sampled_from("abc")), draw(st.integers(1, 3)))
    now = start
    call.mark(RECEIVED, now)
    for stage in draw(st.lists(st.sampled_from(STAGES), min_size=1, max_size=4)):
        for _ in range(draw(st.integers(0, 2)) if depth else 0):
            now += draw(st.floats(0, 1))
            nested = draw(one_thing_at_a_time(now, depth - 1))
            call.adopt(nested)
            now = nested.stamps[-1][1]
        now += draw(st.floats(0, 1))
        call.mark(stage, now)
    return call


@given(one_thing_at_a_time())
def test_without_parallel_calls_a_span_gets_its_own_time(request_):
    for span in attribute(request_):
        assert span.seconds == pytest.approx(sum(span.calls_s), abs=1e-9)


def page(calls):
    """A gateway call, a service in it, and in that model calls (queued, batched, finished) side by side."""
    models = [
        timeline("model", 1, [(QUEUED, queued), (BATCHED, batched), (INFER, done)]) for queued, batched, done in calls
    ]
    service = timeline("Ocr.read", 2, [(STARTED, 2), (INFER, 19)], models)
    return timeline("gateway", 3, [(RECEIVED, 0), (SENT, 1), (ANSWERED, 20)], [service])


def test_a_page_with_two_model_calls_side_by_side():
    found = {span.key: span for span in attribute(page([(3, 4, 8), (3, 8, 10)]))}
    assert {key: span.seconds for key, span in found.items()} == pytest.approx(
        {
            SpanKey(3, "gateway", RECEIVED, SENT, waiting=True): 1.0,
            SpanKey(3, "gateway", SENT, ANSWERED): 2.0,
            SpanKey(2, "Ocr.read", STARTED, INFER): 10.0,
            SpanKey(1, "model", QUEUED, BATCHED, waiting=True): 1.0,
            SpanKey(1, "model", BATCHED, INFER): 6.0,
        }
    )
    assert found[SpanKey(1, "model", QUEUED, BATCHED, waiting=True)].calls_s == (1.0, 5.0)
    assert found[SpanKey(1, "model", BATCHED, INFER)].calls_s == (4.0, 2.0)


def test_equals_share_an_instant_and_what_lies_outside_the_request_does_not_count():
    calls = [timeline(name, 1, [(STARTED, -5), (INPUT, 4), (INFER, 30)]) for name in ("x", "y", "y")]
    found = seconds(timeline("gateway", 3, [(RECEIVED, 0), (ANSWERED, 10)], calls))
    assert found == pytest.approx(
        {
            SpanKey(3, "gateway", RECEIVED, ANSWERED): 0.0,
            SpanKey(1, "x", STARTED, INPUT): 4 / 3,
            SpanKey(1, "x", INPUT, INFER): 2.0,
            SpanKey(1, "y", STARTED, INPUT): 8 / 3,
            SpanKey(1, "y", INPUT, INFER): 4.0,
        }
    )


@pytest.mark.parametrize("stamps", [[], [(RECEIVED, 1.0)]])
def test_a_request_without_a_span_has_no_time(stamps):
    assert attribute(timeline("gateway", 3, stamps, [timeline("m", 1, [(INPUT, 0), (INFER, 9)])])) == []
