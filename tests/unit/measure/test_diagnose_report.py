"""A diagnosis as text, as JSON and as a page: from built evidence, and read back."""

import io
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from tests.unit.measure.seen import evidence, ladder, service_level

from trilith.core.timeline import Timeline
from trilith.measure import BenchPlan
from trilith.measure.diagnose import Diagnosis, decide, render, to_html, to_json
from trilith.measure.diagnose.findings.finding import LATENCY, Change
from trilith.measure.diagnose.ladder import level_seconds, next_load
from trilith.measure.diagnose.verified import gain_of, verified
from trilith.measure.diagnose.verify import copy_of, verify
from trilith.measure.diagnose.view import View
from trilith.measure.diagnose.waterfall import waterfalls
from trilith.measure.laws import Estimate
from trilith.measure.load import Target, TimelineSample
from trilith.orchestration import ServerReport
from trilith.orchestration.engine.places import ServerRecord


def _sample(latency_s, wait_s):
    timeline = Timeline("gateway <Slow>.run", 3, [("received", 5.0), ("queued", 5.001), ("sent", 5.001 + wait_s)])
    timeline.mark("answered", 5.0 + latency_s - 0.001)
    timeline.adopt(Timeline("service Slow.run", 2, [("started", 5.001 + wait_s), ("infer", 5.0 + latency_s - 0.002)]))
    return TimelineSample(msgspec.json.encode(timeline.to_builtins()), latency_s)


def _diagnosis(**more):
    seen = evidence(ladder(service_level), why_ended="it is enough", unread=("GPU: none <here>",))
    samples = [_sample(0.1, 0.04), _sample(0.12, 0.05), _sample(0.5, 0.4)]
    return Diagnosis(verdict=decide(seen), evidence=seen, waterfalls=waterfalls(samples), waterfall_load=2, **more)


def _text(diagnosis):
    console = Console(file=io.StringIO(), width=200, highlight=False)
    console.print(render(diagnosis))
    return console.file.getvalue()


def test_the_verdict_comes_first_and_all_it_rests_on_follows():
    shown = _text(_diagnosis())
    assert shown.startswith("Slow has too few replicas")
    for line in (
        "Floor 3, scale and scheduling. Stage: too-few-replicas (Slow).",
        "1. Set replicas of Slow to 2.",
        "--set Slow.replicas=2",
        "The ladder of loads",
        "Where the median request spent its 120ms, with 2 in flight",
        "Where a request at p99 spent its 500ms",
        "Where the processors go, with 2 in flight (2 cores)",
        "Not read: GPU: none <here>.",
    ):
        assert line in shown


def test_json_has_all_of_it():
    raw = msgspec.json.decode(to_json(_diagnosis()))
    assert raw["schema"] == "trilith-diagnose/1"
    assert raw["verdict"]["stage"] == "too-few-replicas"
    assert raw["evidence"]["levels"][0]["runnable"] > 0
    assert raw["evidence"]["scalability"]["rate_per_s"] > 0
    assert [bar["depth"] for bar in raw["waterfalls"][0]["bars"]] == [0, 0, 0, 1, 0]


class _Balanced(HTMLParser):
    """Sees that elements are closed in their order, and that nothing comes from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe")
        if tag not in ("meta", "br", "p"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "p":
            assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_escapes_what_servers_say():
    page = to_html(_diagnosis())
    reader = _Balanced()
    reader.feed(page)
    assert reader.open == []
    assert "<Slow>" not in page
    assert "&lt;Slow&gt;" in page
    assert "none &lt;here&gt;" in page
    assert page.count("<svg") == 4


def test_no_verdict_has_its_pages_too():
    seen = evidence(ladder(service_level, loads=(1,)))
    nothing = Diagnosis(verdict=decide(seen), evidence=seen)
    assert _text(nothing).startswith("Too little was measured")
    assert "Too little was measured" in to_html(nothing)


def test_waterfalls_leave_out_what_cannot_be_read():
    assert waterfalls([]) == ()
    assert waterfalls([TimelineSample(b"no", 0.1)]) == ()
    assert waterfalls([TimelineSample(msgspec.json.encode(["gateway", 3, [], []]), 0.1)]) == ()


def test_waiting_for_the_lock_is_no_work():
    levels = ladder(service_level, places=4, slots=4, replica=1.0, lock_wait=2.4)
    locked = View(evidence(levels)).locked(levels[-1])
    assert locked["Slow"] == pytest.approx(0.001)
    free = evidence(ladder(service_level))
    assert View(free).locked(free.levels[-1]) == {}
    timeline = Timeline("service Slow.run", 2, [("started", 5.0), ("decoded", 5.02), ("infer", 5.03)])
    sample = TimelineSample(msgspec.json.encode(timeline.to_builtins()), 0.03)
    shown = {bar.label: bar.waiting for bar in waterfalls([sample], locked)[0].bars}
    assert shown["service Slow.run: started -> decoded (the lock)"]
    assert not shown["service Slow.run: decoded -> infer"]
    assert not waterfalls([sample])[0].bars[0].waiting


def test_a_change_that_is_not_there_is_not_verified_and_it_is_said():
    found = verify(BenchPlan(target=Target.parse("http://127.0.0.1:1/run"), method="POST", bodies=()), ())
    assert "Not verified: no change is proposed" in _text(_diagnosis(verified=found))


def test_predicted_beside_measured():
    change = Change(what="x", load=4, gain=Estimate(value=2.0, low=1.7, high=2.2))
    assert gain_of(change, (10.0, 0.4), (19.0, 0.3)) == pytest.approx(1.9)
    faster = msgspec.structs.replace(change, metric=LATENCY)
    assert gain_of(faster, (10.0, 0.4), (19.0, 0.1)) == pytest.approx(4.0)
    with pytest.raises(ValueError, match="no gain without answers"):
        gain_of(change, (10.0, 0.4), (0.0, 0.0))
    found = verified(change, [1.8, 2.1, 1.9, 2.0])
    assert (found.measured.low, found.measured.high, found.inside) == (1.8, 2.1, True)
    assert found.measured.value == pytest.approx(1.95)
    assert not verified(change, [1.2]).inside
    assert "inside the predicted interval" in _text(_diagnosis(verified=found))
    assert "measured 1.95 x" in to_html(_diagnosis(verified=found))


def test_a_copy_is_started_as_the_server_says_with_the_change_over_its_settings(monkeypatch):
    record = ServerRecord(
        pid=1,
        target="app.py:Slow",
        started_at=0.0,
        http="h:1",
        grpc="",
        metrics="",
        folder="/srv",
        options=("--models=m",),
        settings={"Slow.replicas": 1, "Slow.threads": 2},
    )
    change = Change(what="more replicas", settings={"services.Slow.replicas": 3})
    reports = [ServerReport(record=record, status=None)]
    monkeypatch.setattr("trilith.measure.diagnose.verify.server_at", lambda target: reports[0])
    copied = copy_of(Target.parse("http://h:1/x"), change)
    assert (copied.target, copied.options, copied.folder) == ("app.py:Slow", ("--models=m",), Path("/srv"))
    assert copied.settings == {"Slow.replicas": 3, "Slow.threads": 2}
    assert copied.words()  # no setting is said twice
    reports[0] = ServerReport(record=msgspec.structs.replace(record, options=None), status=None)
    assert "was not started by `trilith serve`" in copy_of(Target.parse("http://h:1/x"), change)


def test_the_ladder_ends_when_more_load_gives_no_more():
    assert next_load([], [], [], largest=64) == (1, "")
    assert next_load([1], [10], [0.1], largest=64)[0] == 2
    assert next_load([1, 2], [10, 20], [0.1, 0.1], largest=2) == (
        None,
        "2 in flight is the largest load that was asked for",
    )
    assert next_load([1, 2, 4], [10, 10, 10], [0.1, 0.2, 0.4], largest=64) == (
        None,
        "throughput is flat from 1 in flight on",
    )
    load, why = next_load([1, 2, 4, 8], [10, 18, 25, 30], [0.1, 0.2, 0.3, 1.0], largest=64)
    assert load is None
    assert "10 times" in why
    assert next_load([1, 2, 3], [10, 20, 30], [0.1] * 3, largest=5)[0] == 5
    assert next_load([1], [0], [0.0], largest=5)[0] is None


def test_slow_requests_get_longer_levels():
    assert level_seconds(1.0, 0.01, 1) == 1.0
    assert level_seconds(1.0, 0.2, 1) == pytest.approx(4.8)
    assert level_seconds(1.0, 100.0, 1) == 8.0
