"""The order of a comparison, and when it ends: with a load that answers as told, without a socket."""

import asyncio
from types import SimpleNamespace

import pytest

from trilith.errors import SetupError
from trilith.measure.compare import ComparePlan, Comparing, Contestant
from trilith.measure.compare import run as compare_run
from trilith.measure.histogram import DurationHistogram, DurationSummary
from trilith.measure.load.outcome import GeneratorLoad
from trilith.measure.load.target import Target
from trilith.measure.results import LevelResult
from trilith.measure.subject import Subject, SubjectSpec


class Script:
    """Stands for the load: each measurement gives the rate that `rate_of` says of target and number."""

    def __init__(self, rate_of):
        self.rate_of = rate_of
        self.asked = []
        self.plans = []

    async def run_bench(self, plan, *, sample_timelines, on_progress, on_outcome):
        name = plan.target.path.strip("/")
        rate = self.rate_of(name, sum(1 for asked in self.asked if asked == name))
        self.asked.append(name)
        self.plans.append(plan)
        measured, latencies = level(rate or 0, plan.duration_s), DurationHistogram()
        for _ in range(measured.latency.count):
            latencies.record(measured.latency.mean_s)
        on_outcome(8, SimpleNamespace(recorder=SimpleNamespace(latencies=latencies)))
        if rate is None:
            return SimpleNamespace(levels=(), interrupted=True)
        return SimpleNamespace(levels=(measured,), interrupted=False)


def level(rate, duration_s):
    count, mean_s = int(rate * duration_s), 8 / rate if rate else 0.0
    latency = DurationSummary(
        count=count, mean_s=mean_s, min_s=mean_s, p50_s=mean_s, p90_s=mean_s, p99_s=mean_s, max_s=mean_s
    )
    return LevelResult(
        concurrency=8,
        duration_s=duration_s,
        requests_per_s=rate,
        latency=latency,
        errors={} if rate else {"connection refused": 9},
        sent_bytes=0,
        received_bytes=100 * count,
        connections=8,
        generator=GeneratorLoad(cpu_share=0.1, wait_share=0.0),
        server_cpu_s=None,
        breakdown=None,
        interrupted=False,
    )


@pytest.fixture
def compared(monkeypatch):
    """Runs a comparison of A and B by a script; gives the script and the report."""

    def run(rate_of, answers=None, **options):
        script = Script(rate_of)
        given = iter(answers or [])

        def subject(spec):
            return Subject(
                target=Target.parse(spec.url), url=spec.url, method="GET", bodies=(), traffic=None, has_timeline=False,
                **next(given, {"status": 200, "answer": b"{}"}),
            )  # fmt: skip

        monkeypatch.setattr(compare_run, "run_bench", script.run_bench)
        monkeypatch.setattr(compare_run, "subject", subject)
        urls = {name: f"http://127.0.0.1:1/{name}" for name in "AB"}
        plan = ComparePlan(
            contestants=tuple(Contestant(name=name, url=url) for name, url in urls.items()), **{"rounds": 4, **options}
        )
        comparing = Comparing(plan, [SubjectSpec(url=url) for url in urls.values()])
        comparing.look()
        asyncio.run(comparing.run())
        return script, comparing.report()

    return run


def test_after_a_look_at_each_they_take_turns_in_mirrored_order(compared):
    script, report = compared(lambda name, _: 100 if name == "A" else 200, round_s=1.0)
    assert "".join(script.asked) == "AB" + "AB" + "BA" + "BA" + "AB"
    assert len(report.rounds) == 4
    assert not report.interrupted
    assert report.comparisons[0].ratios["throughput"].ratio == pytest.approx(2.0)


def test_all_get_the_same_instants_of_a_fixed_rate_and_each_round_others(compared):
    script, report = compared(lambda *_: 100, rate_per_s=100.0, round_s=1.0)
    assert {plan.rates_per_s for plan in script.plans} == {(100.0,)}
    assert [plan.seed for plan in script.plans] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert report.rate_per_s == 100.0


def test_a_round_is_as_long_as_the_slowest_needs(compared):
    _, report = compared(lambda name, _: 100 if name == "A" else 2)
    assert report.round_s == pytest.approx(15.0)


def test_a_wanted_width_ends_it_as_soon_as_that_says_something(compared):
    _, report = compared(lambda *_: 100, rounds=50, until_width=0.15, round_s=1.0)
    assert len(report.rounds) == 8
    wild = lambda name, number: 100 if name == "A" else 20 if number % 3 else 300  # noqa: E731
    _, report = compared(wild, rounds=12, until_width=0.15, round_s=1.0)
    assert len(report.rounds) == 12
    assert "After 12 rounds the interval is still wider than" in report.notes[-1]


def test_who_dies_ends_it_with_what_is_known(compared):
    _, report = compared(lambda name, number: 0 if name == "B" and number > 4 else 100, rounds=50, round_s=1.0)
    assert len(report.rounds) == 6
    assert "B gave no good answer in 2 rounds in a row" in report.notes[0]
    assert report.comparisons[0].ratios["throughput"].rounds == 4


def test_an_interrupt_leaves_whole_rounds(compared):
    _, report = compared(lambda name, number: None if name == "B" and number == 3 else 100, round_s=1.0)
    assert report.interrupted
    assert len(report.rounds) == 2


def test_who_answers_one_request_and_no_load_is_told(compared):
    with pytest.raises(SetupError, match=r"B: one request was answered, and under a load of 8 none \(9 x connection"):
        compared(lambda name, _: 0 if name == "B" else 100)


def test_answers_that_change_meanwhile_are_told(compared):
    ok, busy = {"status": 200, "answer": b"{}"}, {"status": 503, "answer": b""}
    _, report = compared(lambda *_: 100, answers=[ok, ok, ok, busy], round_s=1.0)
    assert "The answers of B changed their status" in " ".join(report.notes)
