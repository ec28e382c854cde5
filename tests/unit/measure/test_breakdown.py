import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.timeline import Timeline
from trilith.measure import SpanKey, TimelineSample, break_down
from trilith.measure.breakdown import OUTSIDE, OUTSIDE_SPAN

GATEWAY = [("received", 10.0), ("queued", 10.001), ("sent", 10.002), ("answered", 10.010)]


def timeline(name, floor, stamps, children=()):
    made = Timeline(name, floor)
    made.stamps = list(stamps)
    made.children = list(children)
    return made


def sample(root, latency_s):
    return TimelineSample(json.dumps(root.to_builtins()).encode(), latency_s)


def attributed_ms(breakdown):
    return {span.key: round(span.attributed.mean_s * 1e3, 3) for span in breakdown.spans}


def test_a_child_is_taken_out_of_its_parents_span():
    child = timeline("service Echo.echo", 2, [("started", 10.004), ("infer", 10.009)])
    times = attributed_ms(break_down([sample(timeline("gateway", 3, GATEWAY, [child]), 0.012)]))
    assert times == {
        SpanKey(3, "gateway", "received", "queued"): 1,
        SpanKey(3, "gateway", "queued", "sent", waiting=True): 1,
        SpanKey(3, "gateway", "sent", "answered"): 3,
        SpanKey(2, "service Echo.echo", "started", "infer"): 5,
        OUTSIDE_SPAN: 2,
    }


def test_calls_side_by_side_count_once_and_tell_how_long_each_took():
    children = [timeline("model a", 1, [("started", 10.003), ("infer", 10.009)]) for _ in range(3)]
    breakdown = break_down([sample(timeline("gateway", 3, GATEWAY, children), 0.010)])
    model = next(span for span in breakdown.spans if span.key.floor == 1)
    assert model.calls_per_request == 3
    assert model.attributed.mean_s == pytest.approx(0.006)
    assert model.share == pytest.approx(0.6)
    assert model.per_call.count == 3
    assert model.per_call.mean_s == pytest.approx(0.006)
    assert breakdown.floors[0].floor == 1


def test_a_request_that_did_not_pass_a_span_spent_no_time_there():
    child = timeline("model a", 1, [("started", 10.002), ("infer", 10.010)])
    roots = [timeline("gateway", 3, GATEWAY, children) for children in ([child], [], [], [])]
    breakdown = break_down([sample(root, 0.010) for root in roots])
    model = next(span for span in breakdown.spans if span.key.floor == 1)
    assert (model.calls_per_request, model.attributed.count, model.per_call.count) == (0.25, 4, 1)
    assert model.attributed.mean_s == pytest.approx(0.002)
    assert model.attributed.p50_s < 1e-6
    assert sum(span.attributed.mean_s for span in breakdown.spans) == pytest.approx(breakdown.latency.mean_s)


def test_a_client_whose_clock_says_less_than_the_server_did():
    breakdown = break_down([sample(timeline("gateway", 3, GATEWAY), 0.0095)])
    assert breakdown.latency.mean_s == pytest.approx(0.010)
    assert sum(floor.share for floor in breakdown.floors) == pytest.approx(1.0)


def test_a_server_that_tells_of_more_time_than_its_caller_waited_is_not_believed():
    told = timeline("gateway", 3, GATEWAY)
    breakdown = break_down([sample(told, 0.005), sample(told, 0.012)])
    assert (breakdown.requests, breakdown.unreadable) == (1, 1)
    assert break_down([sample(told, 0.005)]) is None


calls = st.tuples(st.floats(0, 0.02), st.floats(0, 0.02), st.floats(0, 0.02)).map(sorted)


@given(st.lists(st.tuples(st.lists(calls, max_size=6), st.floats(0.021, 0.03)), min_size=1, max_size=4))
def test_floors_and_spans_add_up_to_the_latency_however_many_calls_run_side_by_side(requests):
    samples = []
    for models, latency_s in requests:
        children = [timeline("model m", 1, zip(("queued", "batched", "infer"), times, strict=True)) for times in models]
        root = timeline("gateway", 3, [("received", 0.0), ("sent", 0.001), ("answered", 0.02)], children)
        samples.append(sample(root, latency_s))
    breakdown = break_down(samples)
    assert sum(floor.share for floor in breakdown.floors) == pytest.approx(1.0)
    assert sum(span.share for span in breakdown.spans) == pytest.approx(1.0)
    shares = [floor.share for floor in breakdown.floors]
    assert shares == sorted(shares, reverse=True)
    floor = [span.key.floor for span in breakdown.spans]
    assert floor == sorted(floor, reverse=True)
    assert floor[-1] == OUTSIDE


@pytest.mark.parametrize(
    "header", [b"", b"{}", b'["gateway"]', b'["g", 3, [["a", 2], ["b", 1]], []]', b"\xff", b"[" * 100_000]
)
def test_what_cannot_be_read_is_counted(header):
    good = sample(timeline("gateway", 3, GATEWAY), 0.02)
    breakdown = break_down([TimelineSample(header, 0.01), good])
    assert (breakdown.requests, breakdown.unreadable) == (1, 1)
    assert break_down([TimelineSample(header, 0.01)]) is None
