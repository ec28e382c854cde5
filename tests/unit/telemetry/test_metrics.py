"""Metrics: bounded labels, one owner, text at scrape."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from trilith.core.timeline import ANSWERED, DECODED, ENCODED, INFER, QUEUED, RECEIVED, STARTED, Timeline
from trilith.errors import Bug
from trilith.telemetry import Metrics, RequestMetrics, Snapshot
from trilith.telemetry.exposition import render
from trilith.telemetry.families import Distribution


def _lines(metrics):
    return [line for line in render(metrics).decode().splitlines() if not line.startswith("#")]


def test_a_counter_and_a_gauge():
    metrics = Metrics()
    metrics.counter("trilith_things_total", "Things.", ("kind",)).labelled("a").add(2)
    metrics.gauge("trilith_level", "Level.").labelled().add(-1.5)
    assert _lines(metrics) == ['trilith_things_total{kind="a"} 2.0', "trilith_level -1.5"]


def test_labels_are_bounded():
    family = Metrics().counter("trilith_things_total", "Things.", ("kind",), max_series=2)
    for kind in ("a", "b", "c", "d", "a", "other"):
        family.labelled(kind).add()
    assert dict(family.snapshot().samples) == {("a",): 2, ("b",): 1, ("other",): 3}


def test_label_text_is_escaped():
    metrics = Metrics()
    metrics.counter("trilith_things_total", "Things.", ("kind",)).labelled('a"\n\\b').add()
    assert _lines(metrics) == ['trilith_things_total{kind="a\\"\\n\\\\b"} 1.0']


@settings(max_examples=50)
@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0.001, 90), min_size=1, max_size=5, unique=True).map(sorted))
def test_buckets_count_what_is_at_most_their_bound(values, bounds):
    distribution = Distribution(tuple(bounds))
    for value in values:
        distribution.observe(value)
    buckets = distribution.buckets()
    assert list(buckets.cumulative) == [sum(value <= bound for value in values) for bound in bounds] + [len(values)]
    assert buckets.total == pytest.approx(sum(values))


def test_a_histogram_as_text():
    metrics = Metrics()
    family = metrics.histogram("trilith_wait_seconds", "Waiting.", ("who",), bounds=(0.1, 1.0))
    family.labelled("me").observe(0.05)
    family.labelled("me").observe(5)
    assert _lines(metrics) == [
        'trilith_wait_seconds_bucket{le="0.1",who="me"} 1.0',
        'trilith_wait_seconds_bucket{le="1.0",who="me"} 1.0',
        'trilith_wait_seconds_bucket{le="+Inf",who="me"} 2.0',
        'trilith_wait_seconds_count{who="me"} 2.0',
        'trilith_wait_seconds_sum{who="me"} 5.05',
    ]


def test_sources_are_asked_at_scrape():
    metrics = Metrics()

    def source():
        return [Snapshot(name="trilith_level", kind="gauge", help="Level.", samples=[((), 7)])]

    metrics.add_source(source)
    assert _lines(metrics) == ["trilith_level 7.0"]


def test_misuse_is_a_bug():
    metrics = Metrics()
    metrics.gauge("trilith_level", "Level.", ("a",))
    with pytest.raises(Bug, match="exists"):
        metrics.gauge("trilith_level", "Level.")
    with pytest.raises(Bug, match="ends in _total"):
        metrics.counter("trilith_things", "Things.")
    with pytest.raises(Bug, match="lower-case"):
        metrics.gauge("Trilith-level", "Level.")
    with pytest.raises(Bug, match="ascend"):
        metrics.histogram("trilith_wait_seconds", "Waiting.", bounds=(2.0, 1.0))
    with pytest.raises(Bug, match="has the labels"):
        metrics.gauge("trilith_other", "Other.", ("a",)).labelled("x", "y")


def _phases(metrics):
    (snapshot,) = [found for found in metrics.collect() if found.name == "trilith_oip_request_seconds"]
    return {labels[2]: (buckets.cumulative[-1], round(buckets.total, 6)) for labels, buckets in snapshot.samples}


def test_phases_are_subtractions_of_stamps():
    metrics = Metrics()
    requests = RequestMetrics(metrics)
    timeline = Timeline("gateway", 3)
    timeline.stamps = [(RECEIVED, 1.0), (DECODED, 1.1), (ENCODED, 3.5), (ANSWERED, 3.6)]
    timeline.child("model m", 1).stamps = [(QUEUED, 1.2), (STARTED, 1.5), (INFER, 3.0)]
    timeline.child("model n", 1)
    requests.finished("http", "infer", "POST", "200", timeline)
    assert _phases(metrics) == {
        "total": (1, 2.6),
        "decode": (1, 0.1),
        "encode": (1, 0.5),
        "queue": (1, 0.3),
        "compute": (1, 1.5),
    }


def test_a_refused_request_has_the_phases_that_it_reached():
    metrics = Metrics()
    requests = RequestMetrics(metrics)
    timeline = Timeline("gateway", 3)
    timeline.stamps = [(RECEIVED, 1.0), (ANSWERED, 1.5)]
    requests.finished("http", "infer", "POST", "400", timeline)
    requests.finished("http", "ready", "GET", "200", None)
    counts = {phase: count for phase, (count, _) in _phases(metrics).items()}
    assert counts == {"total": 1, "decode": 0, "encode": 0, "queue": 0, "compute": 0}
    assert 'trilith_oip_requests_total{endpoint="ready",method="GET",protocol="http",status="200"} 1.0' in _lines(
        metrics
    )


def test_requests_in_flight():
    metrics = Metrics()
    gauge = RequestMetrics(metrics).in_flight("grpc")
    gauge.add()
    gauge.add()
    gauge.add(-1)
    assert 'trilith_oip_requests_in_flight{protocol="grpc"} 1.0' in _lines(metrics)


@pytest.mark.parametrize("name", ["nv_odd", "trilith_odd"])
def test_a_help_of_several_lines_stays_on_its_own(name):
    metrics = Metrics()
    metrics.gauge(name, "A \\ and\nnv_forged 1").labelled().add(1)
    lines = render(metrics).decode().splitlines()
    assert f"# HELP {name} A \\\\ and\\nnv_forged 1" in lines
    assert "nv_forged 1" not in lines
