"""The pure parts of a comparison: the order of rounds, what they say, and how it is said."""

import io
import json
import math
import random
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trilith.errors import InvalidConfig
from trilith.measure.attribution import SpanKey
from trilith.measure.breakdown import Breakdown, FloorTimes, SpanTimes
from trilith.measure.compare import (
    ComparePlan,
    CompareReport,
    Contestant,
    comparison_to_html,
    comparison_to_json,
    render_comparison,
)
from trilith.measure.compare.answers import AnswerShape, changed, differing
from trilith.measure.compare.findings import compare_rounds, doubts, standings_of
from trilith.measure.compare.plan import fitting_round_s, order_of
from trilith.measure.compare.results import Round
from trilith.measure.histogram import DurationHistogram, DurationSummary
from trilith.measure.load.outcome import GeneratorLoad
from trilith.measure.results import LevelResult
from trilith.measure.statistics import Verdict


def summary(mean_s, count=1000):
    return DurationSummary(
        count=count, mean_s=mean_s, min_s=mean_s, p50_s=mean_s, p90_s=mean_s, p99_s=mean_s, max_s=mean_s
    )


def breakdown(**spans):
    """Of floors 1 and 2: `model` and `service` give milliseconds of one span each."""
    keys = {
        "model": SpanKey(1, "model rec", "queued", "batched", True),
        "service": SpanKey(2, "service Ocr.read", "decoded", "infer"),
    }
    whole_s = sum(spans.values()) / 1e3
    times = {name: summary(value / 1e3) for name, value in spans.items()}
    return Breakdown(
        requests=10,
        unreadable=0,
        latency=summary(whole_s),
        floors=tuple(FloorTimes(floor=keys[name].floor, share=0.5, attributed=times[name]) for name in spans),
        spans=tuple(
            SpanTimes(key=keys[name], share=0.5, attributed=times[name], calls_per_request=1, per_call=times[name])
            for name in spans
        ),
    )


def level(rate, *, count=1000, errors=None, cpu_s=None, told=None, received_bytes=100_000, cpu_share=0.2, mean_s=None):
    return LevelResult(
        concurrency=8,
        duration_s=1.0,
        requests_per_s=rate,
        latency=summary(8 / rate if mean_s is None else mean_s, count),
        errors=errors or {},
        sent_bytes=0,
        received_bytes=received_bytes,
        connections=8,
        generator=GeneratorLoad(cpu_share=cpu_share, wait_share=0.0),
        server_cpu_s=cpu_s,
        breakdown=told,
        interrupted=False,
    )


def plan(count=2, **options):
    contestants = tuple(Contestant(name=name, url="http://127.0.0.1:1/x") for name in "ABCDEF"[:count])
    return ComparePlan(contestants=contestants, **options)


def rounds_of(*levels_of_contestants):
    count = len(levels_of_contestants)
    return [
        Round(order=order_of(number, count), levels=levels)
        for number, levels in enumerate(zip(*levels_of_contestants, strict=True))
    ]


def scattered(rate, seed, rounds=10, noise=0.02, **options):
    chance = random.Random(seed)
    return [level(rate * math.exp(chance.gauss(0, noise)), **options) for _ in range(rounds)]


def sentence_of(rounds, round_s=1.0):
    return compare_rounds(plan(), rounds, round_s)[0].sentence


@given(st.integers(2, 6), st.integers(0, 50))
def test_every_round_has_each_once_and_pairs_of_rounds_are_mirrored(count, pair):
    there, back = order_of(2 * pair, count), order_of(2 * pair + 1, count)
    assert sorted(there) == list(range(count))
    assert there == back[::-1]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_over_all_turns_everybody_has_every_place_equally_often(count):
    places = [order.index(0) for order in (order_of(number, count) for number in range(2 * count))]
    assert {place: places.count(place) for place in range(count)} == dict.fromkeys(range(count), 2)


@given(st.floats(1e-5, 100), st.integers(1, 1000))
def test_a_round_is_long_enough_for_what_it_counts_and_never_endless(mean_s, concurrency):
    round_s = fitting_round_s(mean_s, concurrency)
    assert 1.0 <= round_s <= 60.0
    assert round_s == 60.0 or concurrency * round_s / mean_s >= 29.99


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"count": 1}, "two targets"),
        ({"rounds": 1}, "2 rounds"),
        ({"until_width": 0.001}, "between 1% and 200%"),
        ({"round_s": 0.0}, "longer than 0"),
        ({"rate_per_s": 0.0}, "a rate above 0"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(options, said):
    with pytest.raises(InvalidConfig, match=said):
        plan(**options)


def test_a_gain_is_said_with_latency_interval_and_place():
    before = scattered(100, 1, told=breakdown(model=70, service=10))
    after = scattered(162, 2, told=breakdown(model=40, service=9))
    said = sentence_of(rounds_of(before, after))
    assert said.startswith("B has 1.6")
    assert "x the throughput of A at 0.6" in said
    assert "x the p99 (95 % interval 1.5" in said
    assert said.endswith("97 % of the difference is in floor 1, runtime: model rec, queued -> batched (waiting).") or (
        "all of the difference is in floor 1" in said
    )


def test_throughput_at_equal_latency_is_said_so():
    before = scattered(100, 1, mean_s=0.02)
    after = scattered(150, 2, mean_s=0.0201)
    assert "at equal p99" in sentence_of(rounds_of(before, after))


def test_no_difference_and_too_noisy_are_said_with_what_would_help():
    same = compare_rounds(plan(), rounds_of(scattered(100, 1), scattered(100, 2)), 1.0)[0]
    assert same.verdict is Verdict.SAME
    assert "B has the throughput of A, within" in same.sentence
    noisy = compare_rounds(plan(), rounds_of(scattered(100, 3, noise=0.5), scattered(100, 4, noise=0.5)), 1.0)[0]
    assert noisy.noisy
    assert noisy.sentence.startswith("Too noisy to say whether B or A")
    assert "rounds (some" in noisy.sentence


@settings(max_examples=25)
@given(st.floats(0.05, 20), st.integers(3, 12), st.integers(0, 1000))
def test_the_sentence_never_says_more_than_the_interval(ratio, rounds, seed):
    noisy = scattered(100, seed, rounds, noise=0.2), scattered(100 * ratio, seed + 1, rounds, noise=0.2)
    found = compare_rounds(plan(), rounds_of(*noisy), 1.0)[0]
    estimate = found.ratios["throughput"]
    claims = "x the throughput of A" in found.sentence
    assert claims == (found.verdict in (Verdict.HIGHER, Verdict.LOWER))
    assert not (claims and estimate.contains(1.0))


def test_two_rounds_of_a_few_answers_each_claim_nothing():
    failing = {"errors": {"timeout": 1}}  # without failures, latencies would tell
    rounds = rounds_of([level(2, count=2, **failing)] * 2, [level(3, count=3, **failing)] * 2)
    assert "Too noisy to say" in sentence_of(rounds)


def test_few_answers_each_are_a_rate_by_their_latency_and_not_by_how_many_fell_within_the_window():
    """Of 5 s and of 4 s each, in windows of 15 s: three answers of each connection on both sides."""
    chance = random.Random(9)
    slow, quick = (
        [level(1.6, count=24, mean_s=mean_s * math.exp(chance.gauss(0, 0.01))) for _ in range(8)] for mean_s in (5, 4)
    )
    rounds = rounds_of(slow, quick)
    assert compare_rounds(plan(), rounds, 15.0)[0].ratios["throughput"].ratio == pytest.approx(1.25, rel=0.03)
    assert [standing.figures["throughput"] for standing in standings_of(plan(), rounds)] == [
        pytest.approx(1.6, rel=0.03),
        pytest.approx(2.0, rel=0.03),
    ]


def test_an_unclear_latency_is_said_after_the_interval():
    chance = random.Random(8)
    wild = [level(200, mean_s=0.05 * math.exp(chance.gauss(0, 1))) for _ in range(10)]
    assert ") ; whether" not in (said := sentence_of(rounds_of(scattered(100, 1, mean_s=0.05), wild)))
    assert "; whether its p99 differs is unclear (" in said


def test_few_answers_say_nothing_about_the_tail():
    found = compare_rounds(plan(), rounds_of(scattered(100, 1, count=30), scattered(100, 2, count=30)), 1.0)[0]
    assert set(found.ratios) == {"throughput", "mean", "p50", "p90"}


def answered_in(seconds, count, seed):
    """So many answers of about so many seconds each."""
    chance, histogram = random.Random(seed), DurationHistogram()
    for _ in range(count):
        histogram.record(seconds * math.exp(chance.gauss(0, 0.3)))
    return histogram


def test_a_tail_that_no_round_has_is_that_of_all_rounds():
    rounds = rounds_of(scattered(100, 1, count=30), scattered(100, 2, count=30))
    rounds = [
        replace(each, latencies=(answered_in(0.1, 30, 2 * number), answered_in(0.2, 30, 2 * number + 1)))
        for number, each in enumerate(rounds)
    ]
    found = compare_rounds(plan(), rounds, 1.0)[0].ratios
    assert found["p99"].method == "bootstrap"
    assert found["p99"].contains(2.0)
    assert 1.4 < found["p99"].ratio < 2.8
    assert found["p90"].method == "student"
    assert standings_of(plan(), rounds)[0].figures["p99"] == pytest.approx(0.2, rel=0.3)
    assert "p99" not in compare_rounds(plan(), rounds[:7], 1.0)[0].ratios


def of_equal_times(chance, *counts):
    """Exponential latencies of one distribution, in so many answers of each."""
    latencies = []
    for count in counts:
        histogram = DurationHistogram()
        for _ in range(count):
            histogram.record(chance.expovariate(100))
        latencies.append(histogram)
    return tuple(replace(level(each.count), latency=each.summary()) for each in latencies), tuple(latencies)


@pytest.mark.parametrize(("tries", "counts"), [(60, (20, 200)), (8, (6, 60))], ids=["rounds", "pooled"])
def test_the_tail_of_fewer_answers_is_no_shorter(tries, counts):
    """The interval holds 1 as often as it says. As they are, p90 of 20 answers is 4 % below that of 200."""
    chance, held = random.Random(7), 0
    for _ in range(tries):
        tried = []
        for number in range(8):
            levels, latencies = of_equal_times(chance, *counts)
            tried.append(Round(order=order_of(number, 2), levels=levels, latencies=latencies))
        held += compare_rounds(plan(), tried, 1.0)[0].ratios["p90"].contains(1.0)
    assert held >= 0.88 * tries - 1


def test_tails_of_unequal_numbers_need_their_latencies_or_enough_answers():
    def ratios_of(few, many):
        return compare_rounds(plan(), rounds_of(scattered(100, 1, count=few), scattered(100, 2, count=many)), 1.0)[
            0
        ].ratios

    assert "p99" not in ratios_of(110, 1000)
    assert "p99" in ratios_of(110, 110)
    assert "p99" in ratios_of(1000, 5000)


def test_a_contestant_with_few_answers_makes_all_rates_those_of_latency():
    few, many = level(1.5, count=24, mean_s=5.0), level(160, count=2400, mean_s=0.1)
    rounds = rounds_of(*([each] * 4 for each in (many, many, few)))
    same, slower = compare_rounds(plan(3), rounds, 15.0)
    rates = [standing.figures["throughput"] for standing in standings_of(plan(3), rounds)]
    assert rates == pytest.approx([80, 80, 1.6])
    assert same.ratios["throughput"].ratio == pytest.approx(rates[1] / rates[0])
    assert slower.ratios["throughput"].ratio == pytest.approx(rates[2] / rates[0])


def test_throughput_by_latency_and_the_mean_latency_are_one_finding():
    chance = random.Random(2)
    slow, quick = (
        [level(0.5, count=2, mean_s=mean_s * math.exp(chance.gauss(0, 0.01))) for _ in range(8)] for mean_s in (5, 4)
    )
    said = sentence_of(rounds_of(slow, quick))
    assert said.startswith("B has 1.26 x the throughput of A (95 %")


def test_at_a_fixed_rate_the_latency_is_the_result():
    rounds = rounds_of(scattered(100, 1, mean_s=0.1), scattered(100, 2, mean_s=0.05))
    found = compare_rounds(plan(rate_per_s=100.0), rounds, 1.0)[0]
    assert found.decisive == "p99"
    assert found.verdict is Verdict.LOWER
    assert found.sentence.startswith("B has 0.50 x the p99 of A at 100 requests a second (95 % interval 0.50 to 0.50)")


def test_cpu_is_compared_where_it_was_measured():
    found = compare_rounds(plan(), rounds_of(scattered(100, 1, cpu_s=0.5), scattered(100, 2, cpu_s=1.0)), 1.0)[0]
    assert found.ratios["cpu"].ratio == pytest.approx(2.0, rel=0.1)
    assert standings_of(plan(), rounds_of(scattered(100, 1, cpu_s=0.5), scattered(100, 2)))[0].cores == 0.5


def test_little_cpu_time_is_compared_over_all_rounds_or_not_at_all():
    coarse = [level(100, cpu_s=0.01 * (number % 3)) for number in range(12)]
    twice = [level(100, cpu_s=0.02 * ((number + 1) % 3)) for number in range(12)]
    assert "cpu" not in compare_rounds(plan(), rounds_of(coarse, twice), 1.0)[0].ratios
    coarse, twice = ([replace(each, server_cpu_s=10 * each.server_cpu_s) for each in side] for side in (coarse, twice))
    found = compare_rounds(plan(), rounds_of(coarse, twice), 1.0)[0].ratios["cpu"]
    assert found.method == "bootstrap"
    assert found.ratio == pytest.approx(2.0)
    assert found.low < 2.0 < found.high
    assert "cpu" not in compare_rounds(plan(), rounds_of(coarse[:7], twice[:7]), 1.0)[0].ratios


def test_the_floors_add_up_to_the_difference_of_the_mean():
    rounds = rounds_of(
        scattered(100, 1, told=breakdown(model=70, service=10)), scattered(120, 2, told=breakdown(service=60))
    )
    found = compare_rounds(plan(), rounds, 1.0)[0]
    assert sum(floor.difference_s for floor in found.floors) == pytest.approx(-0.020)
    assert [floor.floor for floor in found.floors] == [1, 2]  # the largest first
    assert sum(span.difference_s for span in found.spans) == pytest.approx(-0.020)


def test_a_thing_of_another_name_is_the_same_when_it_is_the_only_one_of_its_kind():
    renamed = breakdown(service=30)
    key = SpanKey(2, "service New.read", "decoded", "infer")
    renamed = replace(renamed, spans=(replace(renamed.spans[0], key=key),))
    rounds = rounds_of(scattered(100, 1, told=breakdown(service=10)), scattered(100, 2, told=renamed))
    [span] = compare_rounds(plan(), rounds, 1.0)[0].spans
    assert span.name == "service Ocr.read / New.read"
    assert span.difference_s == pytest.approx(0.020)


def doubts_of(*levels):
    rounds = rounds_of(*levels)
    return " ".join(doubts(rounds, standings_of(plan(), rounds)))


def test_doubts_are_told():
    fine = scattered(100, 1)
    assert doubts_of(fine, fine) == ""
    limited = doubts_of(fine, scattered(100, 2, errors={"status 429": 900}))
    assert "B turns requests away" in limited
    over_grpc = doubts_of(fine, scattered(100, 2, errors={"grpc-status 8 (RESOURCE_EXHAUSTED)": 900}))
    assert "B turns requests away" in over_grpc
    assert "9,000 x status 429" in limited
    assert "only good answers count" in doubts_of(fine, scattered(100, 2, errors={"status 500": 900}))
    assert "SPOILED" in doubts_of(fine, scattered(100, 2, cpu_share=0.95))
    assert "changed their size" in doubts_of(fine, [*fine[:9], level(100, received_bytes=300_000)])
    silent = level(100, count=0, errors={"connection refused": 3})
    assert "no good answer in 1 of 10 rounds" in doubts_of(fine, [*fine[:9], silent])
    assert "drifted" not in doubts_of(scattered(100, 2, noise=0.3), scattered(100, 3, noise=0.3))
    rising = [level(100 * 1.1**number) for number in range(10)]
    assert "A drifted" in doubts_of(rising, rising)


def test_nobody_answered():
    silent = [level(1, count=0) for _ in range(3)]
    found = compare_rounds(plan(), rounds_of(silent, silent), 1.0)[0]
    assert found.ratios == {}
    assert found.noisy
    assert "Nothing can be said" in found.sentence
    assert compare_rounds(plan(), [], 1.0) == ()


def test_answers_that_differ_and_that_change_are_told():
    lines = AnswerShape.of(200, b'{"lines": ["a"], "took": 1}')
    assert lines.form == "{lines: [text], took: number}"
    other = AnswerShape.of(200, b'{"text": "a"}')
    assert "differ in form" in next(differing("AB", [lines, other]))
    assert "differ in size" in next(differing("AB", [AnswerShape.of(200, b"x" * 100), AnswerShape.of(200, b"x" * 300)]))
    assert list(differing("AB", [lines, AnswerShape.of(200, b'{"lines": ["bcd"], "took": 2.5}')])) == []
    assert list(differing("AB", [lines, AnswerShape.of(200, b"\n\x03abc", "gRPC")])) == []
    assert "A changed their status" in next(changed("A", [lines], [AnswerShape.of(503, b"")]))


@pytest.mark.parametrize(
    "value", [None, True, 1.5, "a", [], [[[[[1]]]]], {"k": {"k": {"k": {"k": {}}}}}, dict.fromkeys("abcdefghijk")]
)
def test_any_json_has_a_form_of_bounded_length(value):
    assert 1 < len(AnswerShape.of(200, json.dumps(value).encode()).form) < 200


def report_of(rounds, **options):
    standings = standings_of(plan(), rounds)
    return CompareReport(
        conditions={},
        concurrency=8,
        round_s=1.0,
        standings=standings,
        comparisons=compare_rounds(plan(), rounds, 1.0),
        notes=tuple(doubts(rounds, standings)),
        rounds=tuple(rounds),
        **options,
    )


def shown(report):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(render_comparison(report))
    return console.export_text()


def test_the_tables_have_ratio_and_place():
    text = shown(
        report_of(
            rounds_of(
                scattered(100, 1, told=breakdown(model=70, service=10), cpu_s=0.5),
                scattered(200, 2, told=breakdown(model=30, service=10), cpu_s=0.5),
            )
        )
    )
    assert "B as a multiple of A" in text
    assert "CPU a request" in text
    assert "model rec: queued -> batched" in text
    assert "better" in text


@given(st.floats(0.001, 1000), st.floats(0, 3), st.integers(0, 100))
@settings(max_examples=4)
def test_the_page_shows_every_ratio_within_its_axis(ratio, noise, seed):
    levels = scattered(100, seed, 4, noise=noise), scattered(100 * ratio, seed + 1, 4, noise=noise)
    page = comparison_to_html(report_of(rounds_of(*levels)))
    centres = [float(at) for at in re.findall(r'circle cx="([^"]+)"', page)]
    assert len(centres) == 5
    assert all(130 <= at <= 470 for at in centres)
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    assert "http" not in page.replace("http://127.0.0.1:1/x", "")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_partial_result_is_readable(count):
    report = report_of(rounds_of(scattered(100, 1, rounds=count), scattered(150, 2, rounds=count)), interrupted=True)
    text = shown(report)
    assert f"Interrupted after {count} whole round" in text
    assert "a comparison" in comparison_to_html(report)
    document = json.loads(comparison_to_json(report))
    assert document["interrupted"] is True
    assert len(document["rounds"]) == count
    if count == 1:
        assert document["comparisons"][0]["ratios"]["throughput"]["high"] is None
        assert "One round says nothing" in text


def test_rounds_without_an_answer_of_one_do_not_count():
    silent = level(1, count=0)
    before, after = scattered(100, 1), scattered(200, 2)
    after[3] = silent
    found = compare_rounds(plan(), rounds_of(before, after), 1.0)[0]
    assert found.ratios["throughput"].rounds == 9
    assert found.verdict is Verdict.HIGHER
