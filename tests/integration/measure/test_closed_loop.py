import json
import socket

import pytest

from trilith.measure import LevelResult
from trilith.measure.load import Body, Target, prepare

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    "answer",
    [
        [OK],
        [CHUNKED],
        [b"HTTP/1.1 200 OK\r\n\r\nuntil the end", "close"],
        [b"HTTP/1.1 200 OK\r\nserver: x", b"\r\n\r\nuntil ", b"the end", "close"],
        [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", "close"],
        [b"HTTP/1.1 204 No Content\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", OK],
        [OK[:20], OK[20:]],
        [b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "close"],
    ],
    ids=["length", "chunked", "until-end", "until-end-in-pieces", "close", "204", "100-first", "in-pieces", "http-1.0"],
)
def test_every_framing_of_an_answer_is_a_success(load_against, answer):
    recorder = load_against(lambda _: answer).recorder
    assert recorder.latencies.count > 10
    assert not recorder.errors
    assert recorder.received_bytes >= recorder.latencies.count * 20


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"], "status 503"),
        ([b"HTTP/1.1 302 No\r\ncontent-length: 0\r\n\r\n"], "status 302"),
        (["close"], "closed before the answer"),
        (["reset"], "closed before the answer"),
        ([OK[:-1], "close"], "answer cut off"),
        ([b"HTTP/1.1 200 OK\r\ncontent-le", "close"], "answer cut off"),
        ([b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK[:-1], "close"], "answer cut off"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK[:-1], "close"], "answer cut off"),
        (
            [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok", "close"],
            "answer cut off",
        ),
        ([b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\nok", "close"], "answer cut off"),
        ([b"SSH-2.0-OpenSSH\r\n"], "malformed answer"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"], "malformed answer"),
    ],
)
def test_every_failure_has_its_own_word(load_against, answer, kind):
    recorder = load_against(lambda _: answer).recorder
    assert recorder.latencies.count == 0
    # A reset may also be seen as one, depending on what the kernel delivers first.
    assert set(recorder.errors) <= {kind, "connection reset"}
    assert sum(recorder.errors.values()) > 0


def test_an_answer_more_than_was_asked_for_counts_for_nothing(load_against):
    """The second one would be that of the next request, which the server has not read yet."""
    recorder = load_against(lambda _: [OK + OK]).recorder
    assert set(recorder.errors) == {"malformed answer"}
    assert recorder.errors["malformed answer"] >= recorder.latencies.count > 0


def test_nobody_listens(load_at):
    outcome = load_at(free_port())
    assert set(outcome.recorder.errors) == {"connection refused"}
    # The pauses between attempts grow: a dead port is not hammered.
    assert outcome.recorder.errors["connection refused"] < 100


def test_an_answer_that_does_not_come_is_a_timeout(load_against):
    outcome = load_against(lambda _: [], timeout_s=0.1, duration_s=0.4, concurrency=2)
    assert set(outcome.recorder.errors) == {"timeout"}
    assert outcome.recorder.errors["timeout"] >= 2


def test_bodies_are_sent_in_turn(load_against):
    seen = []

    def behave(data):
        seen.append(data[-1:])
        return [OK]

    target = Target.parse("http://127.0.0.1:1/p")
    requests = [prepare(target, "POST", Body(content=content, content_type="text/plain")) for content in (b"a", b"b")]
    load_against(behave, concurrency=1, requests=requests)
    assert set(seen[0::2]) == {b"a"}
    assert set(seen[1::2]) == {b"b"}


def test_timelines_are_sampled_and_broken_down(load_against):
    timeline = json.dumps(["gateway", 3, [["received", 1.0], ["answered", 1.0001]], []]).encode()
    asked = []

    def behave(data):
        if b"\r\ntrilith-timeline: 1\r\n" not in data:
            return [OK]
        asked.append(data)
        return [OK.replace(b"\r\n\r\n", b"\r\nTrilith-Timeline: " + timeline + b"\r\n\r\n")]

    level = LevelResult.of(load_against(behave, sample_timelines=True), 4)
    assert level.breakdown.requests >= 1
    assert level.breakdown.unreadable == 0
    assert len(asked) < 40  # of some thousands: at most 100 a second
    load_against(lambda data: [OK] if b"timeline" not in data else ["close"], sample_timelines=False)


def test_slow_requests_that_begin_together_are_all_sampled(load_against):
    asked = []

    def behave(data):
        asked.append(b"\r\ntrilith-timeline: 1\r\n" in data)
        return [OK]

    load_against(behave, sample_timelines=True, concurrency=4)
    assert asked[:4] == [True] * 4
    assert sum(asked) < 50


def test_stopping_gives_what_was_measured_so_far(load_against):
    outcome = load_against(lambda _: [OK], duration_s=30.0, stop_after=10)
    assert outcome.interrupted
    assert outcome.recorder.latencies.count > 10
    assert outcome.elapsed_s < 30.0, "the duration that it was to have"


def test_the_warm_up_is_not_counted(load_against):
    count = 0

    def behave(_):
        nonlocal count
        count += 1
        return [b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"] if count <= 4 else [OK]

    outcome = load_against(behave, warmup_s=0.15)
    assert not outcome.recorder.errors
    assert 0 < outcome.recorder.latencies.count < count


def test_the_generator_measures_itself(load_against):
    generator = load_against(lambda _: [OK], concurrency=8).generator
    assert 0 < generator.cpu_share < 1.5
    assert generator.wait_share >= 0


def test_a_timeline_far_longer_than_64_kb_is_read(load_against):
    children = [["model m", 1, [["started", 1.0], ["infer", 1.0 + index * 1e-9]], []] for index in range(4000)]
    timeline = json.dumps(["gateway", 3, [["received", 1.0], ["answered", 1.0 + 4e-6]], children]).encode()
    answer = OK.replace(b"\r\n\r\n", b"\r\ntrilith-timeline: " + timeline + b"\r\n\r\n")
    level = LevelResult.of(load_against(lambda _: [answer], sample_timelines=True, concurrency=1), 1)
    assert len(timeline) > 200_000
    assert level.breakdown.spans[-2].calls_per_request == 4000
    assert level.breakdown.unreadable == 0
