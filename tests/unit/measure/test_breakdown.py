import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.timeline import Timeline
from trilith.measure.breakdown import OUTSIDE, SpanKey, break_down
from trilith.measure.load import TimelineSample

GATEWAY = [("received", 10.0), ("queued", 10.001), ("sent", 10.002), ("answered", 10.010)]


def timeline(name, floor, stamps, children=()):
    made = Timeline(name, floor)
    made.stamps = list(stamps)
    made.children = list(children)
    return made


def sample(root, latency_s):
    return TimelineSample(json.dumps(root.to_builtins()).encode(), latency_s)


def own_ms(breakdown):
    return {span.key: round(span.own.mean_s * 1e3, 3) for span in breakdown.spans}


def test_a_child_is_taken_out_of_its_parents_span():
    child = timeline("service Echo.echo", 2, [("started", 10.004), ("infer", 10.009)])
    times = own_ms(break_down([sample(timeline("gateway", 3, GATEWAY, [child]), 0.012)]))
    assert times[SpanKey(3, "gateway", "received", "queued")] == 1
    assert times[SpanKey(3, "gateway", "sent", "answered")] == 3
    assert times[SpanKey(2, "service Echo.echo", "started", "infer")] == 5
    assert times[SpanKey(OUTSIDE, "network, client", "sent", "read")] == 2


def test_children_in_parallel_are_taken_out_once():
    children = [timeline("model a", 1, [("started", 10.003), ("infer", 10.009)]) for _ in range(3)]
    breakdown = break_down([sample(timeline("gateway", 3, GATEWAY, children), 0.010)])
    assert own_ms(breakdown)[SpanKey(3, "gateway", "sent", "answered")] == 2
    model = next(span for span in breakdown.spans if span.key.floor == 1)
    assert model.calls_per_request == 3
    assert model.own.mean_s == pytest.approx(0.018)


@given(st.lists(st.lists(st.floats(0.0001, 0.01), min_size=4, max_size=4), min_size=1, max_size=5))
def test_without_parallel_work_the_floors_add_up_to_the_latency(requests):
    samples = []
    for gateway_s, wait_s, model_s, network_s in requests:
        instants = [5.0, 5.0 + gateway_s, 5.0 + gateway_s + wait_s, 5.0 + gateway_s + wait_s + model_s]
        model = timeline("model m", 1, [("started", instants[2]), ("infer", instants[3])])
        root = timeline("gateway", 3, [("received", 5.0), ("sent", instants[1]), ("answered", instants[3])], [model])
        samples.append(sample(root, root.duration() + network_s))
    breakdown = break_down(samples)
    assert sum(floor.share for floor in breakdown.floors) == pytest.approx(1.0, rel=1e-6)
    shares = [floor.share for floor in breakdown.floors]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("header", [b"", b"{}", b'["gateway"]', b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_is_counted(header):
    good = sample(timeline("gateway", 3, GATEWAY), 0.02)
    breakdown = break_down([TimelineSample(header, 0.01), good])
    assert (breakdown.requests, breakdown.unreadable) == (1, 1)
    assert break_down([TimelineSample(header, 0.01)]) is None
