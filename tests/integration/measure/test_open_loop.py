import asyncio
import itertools
from functools import partial

import pytest
import uvloop

from trilith.measure import BenchReport, LevelResult, Slo
from trilith.measure.load import LoadPlan, OpenLoop, Target, prepare
from trilith.measure.report_notes import notes

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server(asyncio.Protocol):
    """Answers each request with `OK` when `gate` is set, and counts connections and requests."""

    def __init__(self, state):
        self.state = state

    def connection_made(self, transport):
        self.transport = transport
        self.state.connections += 1
        self.state.open.add(self)

    def connection_lost(self, exc):
        self.state.open.discard(self)

    def data_received(self, data):
        self.state.requests += 1
        if self.state.drops:
            self.transport.abort()
        elif self.state.held is None:
            self.transport.write(OK)
        else:
            self.state.held.append(self)


class State:
    def __init__(self):
        self.connections = self.requests = 0
        self.open = set()
        self.held = None
        self.drops = False


async def until(condition):
    while not condition():  # noqa: ASYNC110  what is waited for tells nobody
        await asyncio.sleep(0.001)


def run(*, rate=100.0, duration_s=0.5, times=None, act=None, state=None, concurrency=4, **plan):
    """One open loop against a server on the same event loop; `act(state, loop)` runs beside it."""
    state = state or State()

    async def main():
        server = await asyncio.get_running_loop().create_server(lambda: Server(state), "127.0.0.1", 0)
        target = Target.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/p")
        loop = OpenLoop(
            LoadPlan(
                target=target,
                requests=[prepare(target, "GET", None)],
                concurrency=concurrency,
                duration_s=duration_s,
                rate_per_s=rate,
                due=times or (lambda: (number / rate for number in itertools.count())),
                **plan,
            )
        )
        beside = asyncio.create_task(act(state, loop)) if act else None
        outcome = await loop.run()
        if beside is not None:
            await beside
        server.close()
        return outcome

    return uvloop.run(main()), state


def test_every_request_that_was_due_is_sent_and_counted():
    outcome, state = run(warmup_s=0.1)
    recorder = outcome.recorder
    # The measurement begins and ends somewhere between two instants: so many requests were due in it, or one more.
    assert 49 <= recorder.offered <= 51
    assert recorder.latencies.count == recorder.offered
    assert not recorder.errors
    assert recorder.lags.count == recorder.offered == recorder.waits.count == recorder.from_send.count
    assert state.connections == 4  # open before the first request, and no more


def test_a_server_that_stalls_is_charged_for_what_it_kept_waiting():
    async def act(state, loop):
        await until(lambda: state.requests >= 4)
        await until(lambda: len(loop._queues[0]) >= 20)
        held, state.held = state.held, None
        for connection in held:
            connection.transport.write(OK)

    state = State()
    state.held = []
    outcome, _ = run(act=act, state=state)
    recorder = outcome.recorder
    assert recorder.latencies.count == recorder.offered
    # The queue of twenty requests was due over 0.2 s: who came first waited longest, though it was sent late.
    assert recorder.latencies.max_s > 0.15
    assert recorder.waits.max_s > 0.15
    assert recorder.waits.longer_than(0.1) >= 8


def test_what_has_no_answer_by_the_end_has_failed():
    state = State()
    state.held = []
    outcome, _ = run(state=state, duration_s=0.2, timeout_s=0.3, slo_s=0.1)
    recorder = outcome.recorder
    assert recorder.latencies.count == 0
    assert sum(recorder.errors.values()) == recorder.offered >= 19
    assert set(recorder.errors) <= {"timeout", "no answer by the end"}
    level = LevelResult.of(outcome, 4, slo=Slo(limit_s=0.1), rate_per_s=100.0, arrivals="constant")
    assert not level.slo.met
    assert level.slo.of == recorder.offered


def test_a_connection_that_is_lost_fails_one_request_and_is_opened_again():
    state = State()
    state.drops = True
    outcome, _ = run(state=state)
    recorder = outcome.recorder
    assert set(recorder.errors) <= {"closed before the answer", "connection reset", "no answer by the end"}
    assert sum(recorder.errors.values()) == recorder.offered
    assert state.connections > 4


def test_an_idle_connection_that_the_server_closes_is_no_failure():
    async def act(state, loop):
        await until(lambda: state.requests >= 5)
        for connection in list(state.open):
            connection.transport.close()
        await until(lambda: state.connections >= 5)

    outcome, state = run(act=act, rate=20.0)
    assert state.connections > 4
    # At most the request that was on its way when its connection was closed.
    assert sum(outcome.recorder.errors.values()) <= 1
    assert outcome.recorder.latencies.count >= outcome.recorder.offered - 1


def test_nobody_listens():
    async def main():
        target = Target.parse("http://127.0.0.1:1/")
        plan = LoadPlan(
            target=target, requests=[prepare(target, "GET", None)], concurrency=2, duration_s=0.3,
            due=lambda: (number / 100 for number in itertools.count()),
            rate_per_s=100, timeout_s=0.2,
        )  # fmt: skip
        return await OpenLoop(plan).run()

    recorder = uvloop.run(main()).recorder
    assert set(recorder.errors) <= {"connection refused", "timeout", "no answer by the end"}
    assert sum(recorder.errors.values()) == recorder.offered > 0


class Overload:
    """More is due than can be sent. An error when it is taken up without a turn of the event loop in between."""

    def __init__(self):
        self.in_a_turn = 0

    def due(self):
        while True:
            self.in_a_turn += 1
            assert self.in_a_turn < 5000, "all that is due is taken up in one turn"
            yield 0.0

    async def watch(self, state, loop, *, requests=None):
        while loop._running or not state.requests:
            self.in_a_turn = 0
            if requests is not None and state.requests >= requests:
                loop.stop()
            await asyncio.sleep(0)


def test_a_rate_that_cannot_be_sent_ends_in_time_and_is_told_of():
    overload = Overload()
    outcome, _ = run(times=overload.due, act=overload.watch, rate=1e6, duration_s=0.5, most_waiting=500)
    level = LevelResult.of(outcome, 4, rate_per_s=1e6, arrivals="constant")
    assert 0.5 <= outcome.elapsed_s < 10
    assert level.fell_behind
    assert level.spoiled
    said = " ".join(notes(BenchReport(url="", method="", bodies=(), conditions={}, levels=(level,))))
    assert "SPOILED: the generator cannot send 1,000,000 requests a second" in said


def test_ctrl_c_is_heard_at_any_rate():
    overload = Overload()
    outcome, _ = run(
        times=overload.due, act=partial(overload.watch, requests=10), rate=1e6, duration_s=60.0, most_waiting=500
    )
    assert outcome.interrupted
    assert outcome.elapsed_s < 30


def test_what_waits_in_the_client_is_bounded():
    longest = 0

    async def act(state, loop):
        nonlocal longest
        while loop._running:
            longest = max(longest, len(loop._queues[0]))
            await asyncio.sleep(0.001)

    state = State()
    state.held = []
    outcome, _ = run(state=state, rate=5000.0, duration_s=0.4, timeout_s=1.0, act=act, most_waiting=100)
    assert longest == 100
    assert outcome.recorder.errors["not sent, too many waited"] > 100
    assert sum(outcome.recorder.errors.values()) == outcome.recorder.offered


def test_nothing_is_sent_once_the_servers_process_is_gone():
    def no_process():
        raise ProcessLookupError

    async def main():
        state = State()
        server = await asyncio.get_running_loop().create_server(lambda: Server(state), "127.0.0.1", 0)
        target = Target.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/p")
        plan = LoadPlan(
            target=target, requests=[prepare(target, "GET", None)], concurrency=2, duration_s=0.3,
            due=lambda: (number / 500 for number in itertools.count()), rate_per_s=500,
        )  # fmt: skip
        loop = OpenLoop(plan, server_cpu_s=no_process)
        with pytest.raises(ProcessLookupError):
            await loop.run()
        next_due = loop._next_due
        await asyncio.sleep(0.1)
        server.close()
        return next_due == loop._next_due, loop._fine_timer

    still, timer = uvloop.run(main())
    assert still
    assert timer is None or timer._descriptor == -1


def test_a_hopeless_level_ends_early():
    state = State()
    state.held = []
    outcome, _ = run(state=state, duration_s=30.0, rate=50.0, slo_s=0.05, hopeless_share=0.02)
    assert outcome.elapsed_s < 20
    assert not outcome.interrupted


def test_stopping_gives_what_was_measured_so_far():
    async def act(state, loop):
        await until(lambda: state.requests >= 10)
        loop.stop()

    outcome, _ = run(act=act, duration_s=30.0)
    assert outcome.interrupted
    assert outcome.recorder.latencies.count >= 5
    assert "no answer by the end" not in outcome.recorder.errors


@pytest.mark.parametrize("rate", [200.0, 3000.0])
def test_the_rate_is_held(rate):
    outcome, _ = run(rate=rate, duration_s=0.4, concurrency=8)
    recorder = outcome.recorder
    assert recorder.offered == pytest.approx(0.4 * rate, rel=0.1)
    assert outcome.generator.spun == (rate > 1000)
