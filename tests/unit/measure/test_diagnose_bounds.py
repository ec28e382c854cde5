"""What a verdict must not claim: gains that nobody has room for, places that are not there, cores that others hold."""

import msgspec
import pytest
from tests.unit.measure.seen import evidence, ladder, latency, process, service_level, stage

from trilith.measure.diagnose import decide
from trilith.measure.diagnose.evidence import BatchPoint, Evidence, Level, Noise, Station


def _page(*, most=1e9, called=None, replica=None, loads=(1, 2, 4, 8), caller_waits=False):
    """`Page.run` calls `Reader.read` four times in a row, 14 ms each; the whole answers at most `most` a second."""
    levels = []
    for load in loads:
        rate = min(load / 0.064, most)
        whole_s = load / rate
        waits_s = whole_s - 0.064
        reader_s = 0.060 + (0.0 if caller_waits else waits_s)
        stages = (
            stage(3, "gateway Page.run", "queued -> sent", 0.001 + (waits_s if caller_waits else 0.0), whole_s),
            stage(2, "service Page.run", "decoded -> infer", 0.003, whole_s),
            stage(2, "service Reader.read", "decoded -> infer", reader_s, whole_s, calls=4.0),
        )
        processes = () if replica is None else (process(100, "replica Reader", 4 * rate * replica),)
        levels.append(
            Level(
                load=load,
                requests_per_s=rate,
                latency=latency(whole_s),
                stages=stages,
                stations=() if called is None else (called,),
                processes=processes,
            )
        )
    return evidence(levels)


def _reader(**more):
    return Station(kind="service", name="Reader", servers=1, calls=100, busy=0.9, pids=(100,), **{"slots": 64, **more})


def _gathered(found):
    """What `asyncio.gather` is predicted to give; 1.0 when it is not advised."""
    verdict = decide(found)
    return next((change.gain.value for change in verdict.changes if "gather" in change.what), 1.0)


FREE = 0.064 / (0.004 + 0.060 / 4)


def test_calls_in_a_row_gain_what_who_is_called_has_room_for():
    assert _gathered(_page()) == pytest.approx(FREE)
    assert _gathered(_page(called=_reader())) == pytest.approx(FREE)
    # One place: side by side they stand in a row all the same.
    assert _gathered(_page(called=_reader(slots=1))) == 1.0
    assert _gathered(_page(called=_reader(slots=2))) == pytest.approx(0.064 / (0.004 + 0.060 / 2))


def test_calls_in_a_row_gain_nothing_where_throughput_is_flat_from_the_first_request_on():
    assert _gathered(_page(most=1.05 / 0.064)) == 1.0
    # A caller that keeps requests waiting says nothing of who is called.
    assert _gathered(_page(most=1.05 / 0.064, caller_waits=True)) == pytest.approx(FREE)


def test_calls_in_a_row_gain_what_cores_and_batches_allow():
    # 14 ms of processor time each: two cores halve it at best.
    assert _gathered(_page(called=_reader(), replica=0.014)) == pytest.approx(0.064 / (0.004 + 0.056 / 2), rel=0.02)
    points = (BatchPoint(size=1, seconds=0.014, count=9), BatchPoint(size=4, seconds=0.035, count=9))
    batched = _gathered(_page(called=_reader(batch_max=4, slots=1, batches=points)))
    assert batched == pytest.approx(0.064 / (0.004 + 0.015 * 2.5), rel=0.02)
    unknown = _gathered(_page(called=_reader(batch_max=4, slots=1)))
    assert unknown == 1.0


def _outside(rate, *, waits=0.0, noise=None, loads=(1, 2, 4, 8)):
    """A server of another kind that uses a tenth of a core."""
    used = msgspec.structs.replace(process(1, "process", 0.1), delay=waits)
    levels = [
        Level(
            load=load,
            requests_per_s=rate(load),
            latency=latency(load / rate(load)),
            processes=(used,),
            generator_cpu=0.04,
        )
        for load in loads
    ]
    return Evidence(url="u", cores=2, levels=tuple(levels), noise=noise)


def test_another_server_that_works_on_one_at_a_time_is_blocked_and_not_too_small():
    verdict = decide(_outside(lambda load: 66.8 if load == 1 else 78.0))
    assert (verdict.floor, verdict.stage) == ("python", "blocking-async")
    assert "about 1.2 are worked on at a time" in verdict.evidence[0]
    assert "plain `def`" in verdict.changes[0].what
    assert verdict.next_best.stage == "too-few-replicas"
    assert "throughput rises without another replica" in verdict.apart
    assert decide(_outside(lambda load: min(4, load) * 60.0)).stage == "too-few-replicas"


def test_what_waits_for_a_core_far_longer_than_it_runs_does_not_compute():
    levels = ladder(service_level, inside_wait=True, slots=64)
    starved = [
        msgspec.structs.replace(
            level,
            processes=tuple(msgspec.structs.replace(each, cpu=0.02, delay=0.71) for each in level.processes),
        )
        for level in levels
    ]
    verdict = decide(evidence(starved))
    assert verdict.stage == "blocking-async"
    assert "blocks on the event loop" in verdict.sentence
    assert "plain `def`" in verdict.changes[0].what


def test_cores_that_others_use_are_told_and_take_from_the_confidence():
    quiet = evidence(ladder(service_level))
    busy = msgspec.structs.replace(quiet, noise=Noise(spread=0.05, stolen=0.0, foreign=1.93))
    assert decide(busy).confidence < 0.7 < decide(quiet).confidence
    assert any("1.9 of the machine's 2 cores" in line for line in decide(busy).evidence)
    assert not any("Other programs" in line for line in decide(quiet).evidence)


def _two_loads(second):
    """One load and twice that, which gives `second` times the throughput; the median takes 1.92 times as long."""
    levels = (
        Level(load=1, requests_per_s=200.0, latency=latency(0.005)),
        Level(load=2, requests_per_s=200.0 * second, latency=latency(0.0096 if second < 1.8 else 0.0051)),
    )
    return Evidence(url="u", cores=2, levels=levels)


def test_there_is_no_room_where_requests_take_twice_as_long():
    verdict = decide(_two_loads(1.4))
    assert verdict.floor == "unknown"
    assert any("1.92 times as long" in line for line in verdict.evidence)
    assert "--max-load" in verdict.apart
    room = decide(_two_loads(1.96))
    assert room.stage == "room"
    assert "as fast as one alone" in room.changes[0].why


def test_without_a_verdict_it_is_said_why_and_only_what_fits_is_advised():
    levels = [msgspec.structs.replace(level, stages=(), stations=()) for level in ladder(service_level)]
    fell = [*levels[:-1], msgspec.structs.replace(levels[-1], requests_per_s=10.0)]
    verdict = decide(
        evidence(
            fell,
        )
    )
    assert verdict.floor == "unknown"
    assert any("more load gives less" in line for line in verdict.evidence)
    assert "--max-load" not in verdict.apart
    assert "--pid" not in verdict.apart
    assert "--metrics-port" in verdict.apart
