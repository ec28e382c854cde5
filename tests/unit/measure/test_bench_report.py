import csv
import dataclasses
import io
import json

import pytest
from rich.console import Console

from trilith.measure import BenchReport, LevelResult, RateFound, Slo, made_name, render, to_csv, to_json
from trilith.measure.load import Body, GeneratorLoad, LoadOutcome, Recorder
from trilith.measure.units import duration, size

TIMELINE = json.dumps(["gateway", 3, [["received", 1.0], ["answered", 1.002]], []]).encode()


def outcome(*, ok=90, errors=(), cpu_share=0.2, wait_share=0.0, timeline=True, server_cpu_s=None):
    recorder = Recorder(sent_bytes=1000, received_bytes=2000)
    for _ in range(ok):
        recorder.answer(200, 0.004)
    for kind in errors:
        recorder.error(kind)
    if timeline:
        recorder.sample(TIMELINE, 0.004)
    return LoadOutcome(
        recorder=recorder,
        elapsed_s=2.0,
        generator=GeneratorLoad(cpu_share=cpu_share, wait_share=wait_share),
        server_cpu_s=server_cpu_s,
        interrupted=False,
    )


def report(*outcomes, interrupted=False):
    levels = tuple(LevelResult.of(one, concurrency) for concurrency, one in enumerate(outcomes, start=1))
    return BenchReport(
        url="http://h/p", method="GET", bodies=(), conditions={"cores": 2}, levels=levels, interrupted=interrupted
    )


def text(of):
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(render(of))
    return console.export_text()


def test_figures_of_a_level():
    level = report(outcome(errors=["timeout"] * 10, server_cpu_s=0.5)).levels[0]
    assert level.requests_per_s == 45
    assert level.failed == 10
    assert level.server_cpu_per_request_s == pytest.approx(0.005)
    assert not level.spoiled


def test_the_table_names_the_floor_that_takes_the_time():
    shown = text(report(outcome()))
    assert "Most of the time" in shown
    assert "orchestration" in shown
    assert "gateway: received -> answered" in shown
    assert "outside: network" in shown
    assert "50.0%" in shown


def test_the_notes_tell_what_to_doubt():
    shown = " ".join(
        text(
            report(
                outcome(errors=["status 500"] * 3, cpu_share=0.97, timeline=False),
                outcome(wait_share=0.3, timeline=False),
                interrupted=True,
            )
        ).split()
    )
    assert "3 x status 500" in shown
    assert "SPOILED" in shown
    assert "waited for a core 30%" in shown
    assert "No breakdown: these answers do not say" in shown
    assert "not Trilith" not in shown  # a page of Trilith has no timeline either
    assert "Interrupted" in shown


def test_a_search_says_when_its_trials_were_too_short():
    slo = Slo(limit_s=0.08)

    def searched(of):
        found = RateFound(rate_per_s=30.0, above_per_s=None, trials=4, complete=True)
        one = outcome(ok=of)
        one.recorder.within_slo = of
        level = LevelResult.of(one, 8, slo=slo, rate_per_s=30.0, arrivals="constant")
        return BenchReport(url="", method="", bodies=(), conditions={}, levels=(level,), slo=slo, search=found)

    assert "Trials of 90 requests do not show p99: that takes 100 at least. Give --duration 4s." in " ".join(
        text(searched(90)).split()
    )
    assert "do not show" not in text(searched(100))


def test_only_a_run_without_any_success_has_failed():
    assert report(outcome(ok=0, errors=["connection refused"])).none_succeeded
    assert not report(outcome(ok=0, errors=["timeout"]), outcome()).none_succeeded


def test_requests_longer_than_the_duration_are_not_the_servers_fault():
    long = report(outcome(ok=0, timeline=False), outcome(ok=0, timeline=False))
    assert long.nothing_ended
    assert long.none_succeeded
    shown = " ".join(text(long).split())
    assert "At concurrency 2: no request ended within the 2s that were measured" in shown
    assert "--duration" in shown
    assert "log says why" not in shown
    some = " ".join(text(report(outcome(), outcome(ok=0, timeline=False))).split())
    assert "At concurrency 2: no request ended" in some
    assert "Nothing was measured" not in some


def test_json_holds_everything_and_csv_one_line_a_level():
    made = report(outcome(server_cpu_s=0.9), outcome(errors=["timeout"]))
    parsed = json.loads(to_json(made))
    assert parsed["schema"] == "trilith-bench/1"
    assert parsed["levels"][0]["server_cpu_per_request_s"] == pytest.approx(0.01)
    assert parsed["levels"][0]["breakdown"]["floors"][0]["floor"] == 3
    assert parsed["levels"][1]["errors"] == {"timeout": 1}
    rows = list(csv.DictReader(io.StringIO(to_csv(made))))
    assert [row["concurrency"] for row in rows] == ["1", "2"]
    assert rows[0]["server_cpu_us_per_request"] == "10000.0"
    assert rows[1]["failed"] == "1"


def test_a_body_that_nobody_gave_is_shown():
    made = made_name(Body(content=b'{"word": "[one]"}', content_type="application/json"))
    shown = " ".join(text(dataclasses.replace(report(outcome()), bodies=(made,))).split())
    assert 'sent: {"word": "[one]"} by /openapi.json.' in shown
    assert "sent:" not in text(report(outcome())).partition("client:")[2]
    assert (
        made_name(Body(content=bytes(2000), content_type="image/png")) == f"{size(2000)} of image/png by /openapi.json"
    )
    assert len(made_name(Body(content=b"[" * 9000, content_type="application/json"))) < 300


def test_units():
    assert [duration(value) for value in (0, 5e-8, 3.14159e-4, 0.0025, 2.5, 250)] == [
        "0",
        "0.05µs",
        "314µs",
        "2.5ms",
        "2.5s",
        "250s",
    ]
    assert [size(value) for value in (0, 999, 1500, 250_000, 3 * 10**9)] == ["0B", "999B", "1.5kB", "250kB", "3.0GB"]
