"""The pure parts of a capacity plan: queues, the model of a service, sizes, and what is said of them."""

import heapq
import io
import json
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from trilith.errors import InvalidConfig
from trilith.measure.capacity import (
    Demand,
    MeasuredPoint,
    capacity_sentence,
    capacity_to_json,
    check_of,
    fit_service,
    plan_capacity,
    points_of_json,
    render_capacity,
    share_of_running,
)
from trilith.measure.capacity.queueing import Atom, erlang_c, response_quantile_s, waiting
from trilith.measure.capacity.sizing import _fits
from trilith.measure.histogram import DurationSummary
from trilith.measure.load.outcome import GeneratorLoad
from trilith.measure.results import LevelResult


def point(concurrency, answered_per_s, *, mean_s=None, rate_per_s=None, spread=1.0, p99_s=None, **options):
    mean_s = mean_s if mean_s is not None else concurrency / answered_per_s
    latency = {0.0: mean_s / (1 + spread), 0.5: mean_s, 0.9: mean_s * (1 + spread / 2), 0.99: mean_s * (1 + spread)}
    latency = {**latency, 0.99: p99_s or latency[0.99], 1.0: 1.2 * (p99_s or latency[0.99])}
    return MeasuredPoint(
        concurrency=concurrency,
        rate_per_s=rate_per_s,
        answered_per_s=answered_per_s,
        latency=latency,
        mean_s=mean_s,
        **{"answers": 5000, **options},
    )


def service(**options):
    """10 ms a request, four at a time: 400 a second."""
    points = [point(1, 100, spread=0.1, **options), point(4, 390, spread=0.1, **options), point(16, 400, **options)]
    return fit_service(points)


def demand(**options):
    return Demand(**{"rate_per_s": 2000.0, "limit_s": 0.08, **options})


@given(st.floats(0.01, 0.99))
def test_erlangs_formula_is_the_known_one_for_one_and_two_servers(busy):
    assert erlang_c(1, busy) == pytest.approx(busy)
    assert erlang_c(2, 2 * busy) == pytest.approx(2 * busy**2 / (1 + busy))


@given(st.integers(1, 300), st.floats(0.001, 0.999))
def test_more_servers_at_the_same_utilisation_mean_less_waiting(servers, busy):
    assert 0 <= erlang_c(servers + 1, busy * (servers + 1)) <= erlang_c(servers, busy * servers) <= 1


@pytest.mark.parametrize(("servers", "busy"), [(1, 0.5), (4, 0.6)])
def test_the_tail_is_that_of_a_simulated_queue(servers, busy):
    chance = random.Random(4)
    service_s, now, free, times = 0.01, 0.0, [0.0] * servers, []
    for _ in range(30_000):
        now += chance.expovariate(busy * servers / service_s)
        begins = max(now, heapq.heappop(free))
        heapq.heappush(free, begins + (took := chance.expovariate(1 / service_s)))
        times.append(begins + took - now)
    simulated_s = sorted(times)[int(0.99 * len(times))]
    atoms = [Atom(-service_s * math.log(1 - (step + 0.5) / 400), 1 / 400) for step in range(400)]
    model_s = response_quantile_s(atoms, waiting(busy * servers / service_s, servers / service_s, servers, 1.0), 0.99)
    assert model_s == pytest.approx(simulated_s, rel=0.1)


def test_above_the_capacity_waits_are_infinite():
    assert waiting(101, 100, 2, 1.0).mean_s == math.inf
    assert response_quantile_s([Atom(0.01, 1.0)], waiting(101, 100, 2, 1.0), 0.99) == math.inf


def test_a_service_is_what_was_measured_of_it():
    model = service(cpu_per_request_s=0.002)
    assert model.capacity_per_s == 400
    assert model.servers == 4
    assert model.mean_s == pytest.approx(0.01, rel=0.1)
    assert model.cpu_per_request_s == 0.002
    assert fit_service([point(1, 100), point(16, 400)], replicas=2).capacity_per_s == 200


def test_measured_waits_scale_the_model():
    model = service()
    textbook_s = model.quantile_s(300, 0.99)
    measured = fit_service(
        [point(1, 100, spread=0.1), point(16, 400), point(64, 300, rate_per_s=300.0, p99_s=2 * textbook_s)]
    )
    assert measured.measured_waits
    assert measured.wait_scale > 1.5
    assert measured.quantile_s(300, 0.99) == pytest.approx(2 * textbook_s, rel=0.01)


@pytest.mark.parametrize(
    ("p99_s", "options", "said"),
    [
        (0.01095, {}, "within the noise"),  # 0.5 % below that of lone requests
        (0.0112, {}, "within the noise"),
        (0.04, {"answers": 999}, "300 a second had 999 answers (a p99 needs 1,000)"),
        (30.0, {}, "300 a second had waits less than 0.05 or more than 20 times those"),
    ],
)
def test_waits_that_an_open_loop_cannot_tell_are_a_textbooks_and_told(p99_s, options, said):
    closed = [point(1, 100, spread=0.1), point(16, 400)]
    found = fit_service([*closed, point(64, 300, rate_per_s=300.0, mean_s=0.01, p99_s=p99_s, **options)])
    assert (found.wait_scale, found.measured_waits) == (1.0, False)
    assert found.quantile_s(380, 0.99) == fit_service(closed).quantile_s(380, 0.99)
    assert said in found.doubts[-1]
    assert "a textbook's" in found.doubts[-1]


def test_of_two_measured_waits_the_longer_one_counts():
    closed, textbook = [point(1, 100, spread=0.1), point(16, 400)], service()
    opened = [
        point(64, rate, rate_per_s=rate, mean_s=0.01, p99_s=factor * textbook.quantile_s(rate, 0.99))
        for rate, factor in ((300.0, 2.0), (360.0, 1.1))
    ]
    one, both = fit_service([*closed, opened[0]]), fit_service([*closed, *opened])
    assert both.wait_scale == one.wait_scale > 2
    assert "the longer one is used" in both.doubts[-1]


@settings(max_examples=15)
@given(st.floats(1, 50_000), st.floats(0.02, 2), st.floats(0.3, 0.95))
def test_the_plan_keeps_its_bounds_and_one_replica_less_would_not(rate_per_s, limit_s, most_busy):
    wanted = demand(rate_per_s=rate_per_s, limit_s=limit_s, most_busy=most_busy)
    plan = plan_capacity(service(), wanted)
    chosen = plan.chosen
    assert chosen.fits
    assert chosen.busy == pytest.approx(rate_per_s / (400 * chosen.replicas))
    assert chosen.busy <= most_busy + 1e-6
    assert chosen.tail_s <= limit_s * 1.0001
    assert plan.highest_rate_per_s >= rate_per_s * (1 - 1e-9)
    assert plan.replicas_at_less >= chosen.replicas
    less = [size for size in plan.beside if size.replicas == chosen.replicas - 1]
    assert all(not size.fits for size in less)


@settings(max_examples=25)
@given(
    st.floats(50, 600),
    st.floats(0.015, 0.06),
    st.integers(1, 9),
    st.sampled_from([1, 4, 16]),
    st.integers(0, 3),
)
def test_the_plan_is_the_smallest_number_that_a_scan_finds(rate_per_s, limit_s, per_machine, in_flight, spare):
    """Five replicas on two machines may be slower than four on one, so that more may be fewer than enough."""
    model = fit_service([point(1, 100, spread=0.1), point(in_flight, 100 * in_flight, mean_s=0.01, spread=0.1)])
    wanted = demand(rate_per_s=rate_per_s, limit_s=limit_s, replicas_per_machine=per_machine)
    found = plan_capacity(model, replace(wanted, spare=spare)).chosen
    smallest = next(number for number in range(1, 1000) if _fits(model, wanted, per_machine, number))
    assert found.fits
    assert found.replicas == next(
        number for number in range(smallest + spare, 1000) if _fits(model, wanted, per_machine, number)
    )


def test_four_replicas_on_one_machine_are_chosen_before_six_on_two():
    model = fit_service([point(1, 100, spread=0.1), point(4, 100, spread=0.1)])
    wanted = demand(rate_per_s=170, limit_s=0.02, replicas_per_machine=4)
    assert not _fits(model, wanted, 4, 5)
    assert plan_capacity(model, wanted).chosen.replicas == 4


@settings(max_examples=15)
@given(st.floats(1, 20_000), st.floats(1.01, 3))
def test_more_load_or_less_time_never_takes_fewer_replicas(rate_per_s, factor):
    plans = [
        plan_capacity(service(), demand(rate_per_s=rate, limit_s=limit_s)).chosen.replicas
        for rate, limit_s in ((rate_per_s, 0.08), (rate_per_s * factor, 0.08), (rate_per_s, 0.08 / factor + 0.012))
    ]
    assert plans[0] <= plans[1]
    assert plans[0] <= plans[2] or 0.08 / factor + 0.012 >= 0.08


def test_machines_hold_what_they_have_cores_for():
    model = service(cpu_per_request_s=0.002)  # 0.8 cores when full
    plan = plan_capacity(model, demand(cores_per_machine=4, price_per_hour=0.2))
    assert plan.replicas_per_machine == 5
    assert plan.chosen.machines == math.ceil(plan.chosen.replicas / 5)
    assert plan.chosen.cores_in_use == pytest.approx(4.0)
    assert plan.chosen.per_million == pytest.approx(plan.chosen.machines * 0.2 / 3600 / 2000 * 1e6)
    assert plan_capacity(model, demand(replicas_per_machine=1)).chosen.machines == plan.chosen.replicas


def test_spare_replicas_are_on_top():
    plain, spare = plan_capacity(service(), demand()), plan_capacity(service(), demand(spare=2))
    assert spare.chosen.replicas == plain.chosen.replicas + 2
    assert spare.highest_rate_per_s == plain.highest_rate_per_s
    assert "2 of them spare" in capacity_sentence(spare)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"limit_s": 0.005}, "no number of replicas gives p99 5ms"),
        ({"rate_per_s": 1e9}, "more than 100,000 replicas"),
        ({"rate_per_s": 0.0}, "above 0"),
        ({"most_busy": 1.0}, "highest utilisation"),
        ({"spare": -1}, "no negative number"),
        ({"cores_per_machine": 0.0}, "more than 0 cores"),
    ],
)
def test_what_cannot_be_is_said(options, said):
    with pytest.raises(InvalidConfig, match=said):
        plan_capacity(service(), demand(**options))


@pytest.mark.parametrize(
    ("points", "said"),
    [([], "nothing to plan by"), ([point(8, 100)], "one request at a time")],
)
def test_a_measurement_that_says_too_little_is_refused(points, said):
    with pytest.raises(InvalidConfig, match=said):
        fit_service(points)


def test_doubts_are_told():
    growing = " ".join(fit_service([point(1, 100), point(8, 600)]).doubts)
    assert "not yet full" in growing
    assert "a textbook's" in growing
    assert "one level only" in " ".join(fit_service([point(1, 100)]).doubts)
    assert "generator was the limit" in " ".join(fit_service([point(1, 100), point(8, 600, spoiled=True)]).doubts)
    assert "4.0% of the requests failed" in " ".join(fit_service([point(1, 9), point(8, 60, failed_share=0.04)]).doubts)
    assert "cores say nothing" in " ".join(plan_capacity(service(), demand(cores_per_machine=4)).notes)
    heavy = service(cpu_per_request_s=0.02)
    assert "more than the 4 of a machine" in " ".join(plan_capacity(heavy, demand(cores_per_machine=4)).notes)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"answers": 60}, "300 a second had 60 answers (a p99 needs 1,000)"),
        ({"failed_share": 0.02}, "300 a second had 2.0% failures"),
        ({"spoiled": True}, "300 a second was spoiled by the generator"),
        ({"rate_per_s": 20.0}, "no level was an open loop between 30 %"),
    ],
)
def test_open_loops_that_say_nothing_of_waits_are_named_with_the_reason(more, said):
    opened = point(64, 300, **{"rate_per_s": 300.0, **more})
    model = fit_service([point(1, 100), point(16, 400), opened])
    assert not model.measured_waits
    assert said in " ".join(model.doubts)


def test_the_plan_in_words_in_a_table_and_as_json():
    plan = plan_capacity(service(cpu_per_request_s=0.002), demand(cores_per_machine=4, price_per_hour=0.2))
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(render_capacity(plan))
    text = " ".join(console.export_text().split())
    assert "One replica answers up to 400/s, 4 at a time" in text
    assert "2,000/s at p99 within 80ms take 7 replicas on 2 machines of 4 cores, 71% busy" in text
    assert "cannot keep up" in text or "too busy" in text
    document = json.loads(capacity_to_json(plan))
    assert document["chosen"]["replicas"] == 7
    assert document["schema"] == "trilith-plan/1"


def replayed(p99_s, failed=0, cpu_share=0.1, count=5000):
    latency = DurationSummary(
        count=count, mean_s=p99_s, min_s=p99_s, p50_s=p99_s, p90_s=p99_s, p99_s=p99_s, max_s=p99_s
    )
    return LevelResult(
        concurrency=64,
        duration_s=10.0,
        requests_per_s=300.0,
        latency=latency,
        errors={"status 503": failed} if failed else {},
        sent_bytes=0,
        received_bytes=0,
        connections=64,
        generator=GeneratorLoad(cpu_share=cpu_share, wait_share=0.0),
        server_cpu_s=None,
        breakdown=None,
        interrupted=False,
    )


def test_a_check_sends_the_share_of_the_running_replicas_and_judges_by_the_bound():
    planned = plan_capacity(service(), demand())  # 7 replicas
    assert share_of_running(planned, 2) == pytest.approx(2000 * 2 / 7)
    assert share_of_running(planned, 20) == 2000
    held = check_of(planned, 1, replayed(0.03))
    assert held.holds
    assert held.sentence.startswith("Checked at 286/s, the share of 1 of the replicas: p99 was 30ms; planned were")
    assert "IT DOES NOT HOLD" in check_of(planned, 1, replayed(0.2)).sentence
    assert not check_of(planned, 1, replayed(0.03, failed=50)).holds
    assert "proves nothing" in check_of(planned, 1, replayed(0.03, cpu_share=0.99)).sentence


@pytest.mark.parametrize(("fraction", "fewest"), [(0.99, 299), (0.95, 59)])
def test_a_check_of_few_answers_proves_nothing(fraction, fewest):
    planned = plan_capacity(service(), demand(fraction=fraction))
    few = check_of(planned, 1, replayed(0.03, count=fewest - 1))
    assert not few.holds
    assert not few.proves
    assert (
        f"{fewest - 1} answers say nothing about p{100 * fraction:.0f}, which takes {fewest}; check for" in few.sentence
    )
    assert check_of(planned, 1, replayed(0.03, count=fewest)).holds
    assert "IT DOES NOT HOLD" in check_of(planned, 1, replayed(0.2, count=20)).sentence
    assert "nothing was answered" in check_of(planned, 1, replayed(0.0, count=0)).sentence


def level(concurrency, rate, **more):
    latency = {"count": 100, **dict.fromkeys(("mean_s", "min_s", "p50_s", "p90_s", "p99_s", "max_s"), 0.01)}
    return {
        "concurrency": concurrency,
        "requests_per_s": rate,
        "latency": latency,
        "generator": {},
        "errors": {},
        **more,
    }


def test_a_report_of_bench_is_read():
    report = {"schema": "trilith-bench/1", "levels": [level(1, 100.0), level(64, 80.0, open={"rate_per_s": 80.0})]}
    closed, opened = points_of_json(json.dumps(report).encode(), "report.json")
    assert (closed.rate_per_s, closed.answered_per_s, closed.latency[0.99]) == (None, 100.0, 0.01)
    assert opened.rate_per_s == 80.0


@pytest.mark.parametrize("content", [b"", b"{}", b'{"schema": "trilith-compare/1", "levels": []}'])
def test_what_is_no_report_of_bench_is_refused(content):
    with pytest.raises(InvalidConfig, match=r"report\.json: expected a report of `trilith bench"):
        points_of_json(content, "report.json")
