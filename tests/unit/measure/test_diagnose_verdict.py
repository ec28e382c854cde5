"""The decider on evidence of servers whose bottleneck is known by construction; no server, no clock."""

import msgspec
import pytest
from tests.unit.measure.seen import (
    QUIET,
    evidence,
    ladder,
    latency,
    memory,
    model_level,
    process,
    service_level,
    stage,
)

from trilith.measure.diagnose import decide
from trilith.measure.diagnose.evidence import Evidence, Level, Noise


def _serial():
    """`Page.run` calls `Reader.read` four times, one after the other."""
    levels = []
    for load in (1, 2, 4, 8):
        whole_s = 0.064
        stages = (
            stage(3, "gateway Page.run", "queued -> sent", 0.001, whole_s),
            stage(2, "service Page.run", "decoded -> infer", 0.003, whole_s),
            stage(3, "gateway Reader.read", "sent -> started", 0.004, whole_s, calls=4.0, per_call_s=0.001),
            stage(2, "service Reader.read", "decoded -> infer", 0.056, whole_s, calls=4.0, per_call_s=0.014),
        )
        levels.append(Level(load=load, requests_per_s=load / whole_s, latency=latency(whole_s), stages=stages))
    return evidence(levels)


def _client():
    levels = [
        Level(
            load=load,
            requests_per_s=min(load * 9000.0, 30000.0),
            latency=latency(load / min(load * 9000.0, 30000.0)),
            generator_cpu=min(0.98, 0.35 * load),
            processes=(process(1, "process", min(0.45, 0.2 * load)),),
        )
        for load in (1, 2, 4, 8, 16)
    ]
    return outside(levels)


def outside(levels):
    return Evidence(url="u", cores=2, levels=tuple(levels), noise=QUIET)


def _services(**more):
    return evidence(ladder(service_level, **more))


def _models(**more):
    return evidence(ladder(model_level, **more))


def _batched(cost, most, loads=(1, 2, 4, 8, 16, 32)):
    return evidence(ladder(model_level, loads=loads, batch_max=most, cost=cost, in_gateway=False))


CASES = {
    ("model", "model-compute"): lambda: _models(instances=2, wants=1.0),
    ("model", "memory-bandwidth"): lambda: msgspec.structs.replace(
        _models(instances=2, wants=1.0), memory=memory(300 << 20)
    ),
    ("model", "threads-oversubscribed"): lambda: _models(instances=2, wants=4.0),
    ("model", "batch-too-small"): lambda: _batched(lambda n: 0.020 + 0.002 * n, 2),
    ("model", "batch-too-large"): lambda: _batched(lambda n: 0.010 + 0.002 * n + 0.0006 * n * n, 16),
    ("scale", "window-too-long"): lambda: _services(held_s=0.06, batch_max=64, places=64, slots=1),
    ("scale", "too-few-instances"): lambda: _models(in_gateway=False),
    ("scale", "too-few-replicas"): lambda: _services(),
    ("scale", "hot-replica"): lambda: _services(
        replicas=2, places=2, calls_by_server=(30, 170), busy_by_server=(1.0, 1.0)
    ),
    ("python", "interpreter-lock"): lambda: evidence(
        ladder(service_level, places=4, slots=4, replica=1.0, lock_wait=2.4)
    ),
    ("python", "encoding"): lambda: evidence(
        ladder(service_level, places=4, service_s=0.002, coding_s=0.02, sent_bytes=400_000.0, replica=1.0),
        content_type="application/json",
    ),
    ("python", "blocking-async"): lambda: _services(inside_wait=True, slots=64),
    ("python", "serial-calls"): _serial,
    ("client", "client"): _client,
    ("nothing", "room"): lambda: _services(places=64, slots=64),
}


@pytest.mark.parametrize("known", CASES, ids=lambda known: known[1])
def test_the_floor_and_the_stage_are_named(known):
    verdict = decide(CASES[known]())
    assert (verdict.floor, verdict.stage) == known
    assert verdict.confidence >= 0.4
    assert verdict.evidence
    assert verdict.apart
    assert 1 <= len(verdict.changes) <= 3
    assert decide(CASES[known]()) == verdict


def test_calls_of_different_methods_may_need_each_others_results():
    whole_s = 0.064
    stages = (
        stage(3, "gateway Page.run", "queued -> sent", 0.001, whole_s),
        stage(2, "service Page.run", "decoded -> infer", 0.003, whole_s),
        stage(2, "service Detector.find", "decoded -> infer", 0.030, whole_s),
        stage(2, "service Reader.read", "decoded -> infer", 0.030, whole_s),
    )
    levels = [
        Level(load=load, requests_per_s=load / whole_s, latency=latency(whole_s), stages=stages) for load in (1, 2, 4)
    ]
    assert decide(evidence(levels)).stage == "room"


@pytest.mark.parametrize("known", CASES, ids=lambda known: known[1])
def test_a_machine_that_is_too_noisy_gets_its_figure_and_no_verdict(known):
    noisy = msgspec.structs.replace(CASES[known](), noise=Noise(spread=1.4, stolen=0.1, foreign=1.9))
    verdict = decide(noisy)
    assert (verdict.floor, verdict.changes) == ("unknown", ())
    assert "2.4 times as long" in verdict.sentence
    assert "1.9 of its 2 cores" in verdict.sentence
    assert decide(noisy, noisiest=2.0).floor == known[0]


def test_a_machine_that_gives_no_processor_time_gets_no_verdict():
    starved = msgspec.structs.replace(
        CASES["scale", "too-few-replicas"](), noise=Noise(spread=0.0, stolen=0.0, foreign=2.0, waited=0.95)
    )
    verdict = decide(starved)
    assert verdict.floor == "unknown"
    assert "20 times its processor time (up to 10 is borne)" in verdict.sentence
    assert decide(starved, noisiest=3.0).floor == "scale"


def test_noise_takes_from_the_confidence():
    quiet = CASES["scale", "too-few-replicas"]()
    noisy = msgspec.structs.replace(quiet, noise=Noise(spread=0.8, stolen=0.0, foreign=1.0))
    assert decide(noisy).confidence < decide(quiet).confidence


def test_cold_starts_are_seen_by_what_was_loaded():
    levels = [model_level(load, held_s=0.2, batch_max=4, loads=40) for load in (1, 2, 4)]
    assert decide(evidence(levels)).stage == "cold-starts"


def test_gains_are_those_that_the_laws_give():
    [more, *_] = decide(CASES["scale", "too-few-replicas"]()).changes
    assert more.settings == {"Slow.replicas": 2}
    assert more.gain.value == pytest.approx(2.0, rel=0.02)
    assert more.gain.low < 2.0 < more.gain.high
    [batch, *_] = decide(CASES["model", "batch-too-small"]()).changes
    now, then = (0.020 + 0.002 * 2) / 2, (0.020 + 0.002 * 8) / 8
    assert batch.settings == {"models.m.max_batch_size": 8}
    assert batch.gain.value == pytest.approx(now / then, rel=0.05)
    [gather, *_] = decide(_serial()).changes
    assert gather.gain.value == pytest.approx(0.064 / (0.004 + 0.060 / 4), rel=0.02)
    [window, *_] = decide(CASES["scale", "window-too-long"]()).changes
    assert window.gain.value == pytest.approx(0.08 / 0.02, rel=0.02)


def test_processors_bound_what_more_processes_give():
    levels = ladder(service_level, places=4, slots=4, replica=1.0, lock_wait=2.4)
    [more, *_] = decide(evidence(levels)).changes
    assert more.settings == {"Slow.replicas": 2}
    assert 1.5 < more.gain.value < 2.0


def test_failures_and_limits_of_the_rate_are_no_bottleneck():
    levels = [msgspec.structs.replace(level, failed=900, errors={"status 429": 900}) for level in ladder(service_level)]
    verdict = decide(evidence(levels))
    assert verdict.floor == "unknown"
    assert "status 429 (4,500)" in verdict.sentence
    assert "limits the rate" in verdict.sentence


def test_some_failures_are_told_beside_the_verdict():
    levels = [msgspec.structs.replace(level, failed=3, errors={"status 500": 3}) for level in ladder(service_level)]
    verdict = decide(evidence(levels))
    assert verdict.stage == "too-few-replicas"
    assert any("15 of 1,015 requests failed" in line for line in verdict.evidence)


def test_too_little_and_nothing_at_all():
    assert "Too little" in decide(evidence(ladder(service_level, loads=(1,)))).sentence
    none = [Level(load=1, requests_per_s=0.0, latency=latency(0.0, count=0), failed=3, errors={"timeout": 3})]
    assert "No request succeeded" in decide(evidence(none)).sentence


def test_what_nothing_explains_is_said_to_be_so():
    levels = [msgspec.structs.replace(level, stages=(), stations=(), processes=()) for level in ladder(service_level)]
    verdict = decide(evidence(levels))
    assert verdict.floor == "unknown"
    assert "No single bottleneck" in verdict.sentence


def test_timelines_alone_say_where_requests_wait():
    for levels, named, floor in (
        (ladder(service_level), "too-few-replicas", "scale"),
        (ladder(model_level), "too-few-instances", "scale"),
        (ladder(model_level, instances=2, wants=1.0), "model-compute", "model"),
    ):
        keep_processes = floor == "model"
        seen = [
            msgspec.structs.replace(level, stations=(), processes=level.processes if keep_processes else ())
            for level in levels
        ]
        verdict = decide(evidence(seen))
        assert (verdict.floor, verdict.stage) == (floor, named)
        assert verdict.confidence <= 0.5


@pytest.mark.parametrize(
    ("processes", "known"),
    [
        ((process(1, "process", 1.0, threads=4, lock_wait=2.0),), ("python", "interpreter-lock")),
        ((process(1, "process", 0.1),), ("scale", "too-few-replicas")),
        ((process(1, "process", 1.0), process(2, "process", 1.0)), ("model", "model-compute")),
        ((), ("scale", "unknown")),
    ],
)
def test_of_another_server_what_can_be_seen_from_outside(processes, known):
    levels = [
        Level(
            load=load,
            requests_per_s=min(50.0 * load, 100.0),
            latency=latency(load / min(50.0 * load, 100.0)),
            server_cpu_s=0.01,
            processes=processes,
            generator_cpu=0.05,
        )
        for load in (1, 2, 4, 8, 16)
    ]
    verdict = decide(outside(levels))
    assert (verdict.floor, verdict.stage) == known
    assert verdict.confidence <= 0.6
