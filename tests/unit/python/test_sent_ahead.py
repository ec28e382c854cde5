"""What goes to a quick instance ahead of its work, and when its process writes what it answers. No process."""

import asyncio
import gc
import time

from hypothesis import given
from hypothesis import strategies as st
from test_request_instances import ask, serving, turn

from trilith.runtime import InferRequest
from trilith.runtime.backends.port import Answered, LifeReport, Outcome
from trilith.runtime.backends.python.holding import LONGEST_S, Held
from trilith.runtime.schedule import AheadWindow, BatchingConfig, DynamicBatcher, Waiting
from trilith.runtime.schedule.ahead import WORTH_S
from trilith.runtime.ticket import Ticket
from trilith.runtime.validation import Admitted

ALONE = "max_batch_size: 4\nbatching: false\n"
seconds = st.floats(0.0, 1.0)


@given(st.lists(seconds, min_size=1), seconds, st.booleans())
def test_what_goes_ahead_is_worth_little(history, usual, grows):
    window = AheadWindow(grows=grows)
    for each in (*history, *[usual] * 200):
        window.observe(each, 0.0)
        assert 1 <= window.size <= (2 if grows else 16)
    if usual >= WORTH_S:
        assert window.size == 1
    elif usual > WORTH_S / 2 * 1.01:
        assert window.size == 2
    else:
        assert window.size == 2 or window.size * usual <= WORTH_S * 1.01


def test_one_slow_moment_says_little_and_many_say_all():
    window = AheadWindow(grows=False)
    for _ in range(50):
        window.observe(30e-6, 0.0)
    assert window.size > 10
    window.observe(0.004, 0.0)
    assert window.size == 1
    window.observe(30e-6, 0.0)
    assert window.size > 4
    for _ in range(50):
        window.observe(300e-6, 0.0)
    assert window.size == 2


def test_little_is_near_what_may_end_the_process_again():
    window = AheadWindow(grows=False)
    window.observe(0.0, 10.0)
    assert window.size == 16
    window.died(11.0)
    assert window.size == 1
    window.observe(0.0, 12.0)
    assert window.size == 2
    window.observe(0.0, 72.0)
    assert window.size == 16


@given(st.lists(st.tuples(st.floats(0.0, 1e-3), st.integers(0, 5)), min_size=1))
def test_answers_are_held_only_for_a_moment_and_for_those_that_wait(steps):
    held, now, count = Held(), 0.0, 0
    for took, waiting in steps:
        began, now = now, now + took
        if held.since is not None:
            assert began - held.since < LONGEST_S * 1.01
        count += 1
        write = held.add(began, now, waiting=waiting)
        assert write or (waiting >= 2 and took < LONGEST_S * 1.01 and count < 16)
        if write:
            held.written()
            assert held.since is None
            count = 0


def test_a_quick_model_that_does_not_batch_gets_many_ahead(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = [ask(runtime, value) for value in range(30)]
        await turn()
        assert remote.rows() == [[0.0]]  # not known to be quick yet
        remote.answer()
        await turn()
        assert remote.rows() == [[float(value)] for value in range(1, 17)]
        remote.answer(took_s=1.0)
        await turn()
        assert len(remote.held) == 15  # a slow one: nothing more
        while remote.held:
            remote.answer()
            await turn()
        answers = await asyncio.gather(*asked)
        assert [answer.outputs["y"].item() for answer in answers] == [2.0 * value for value in range(30)]

    serving(tmp_path, check, yaml=ALONE)


def test_no_instance_takes_what_is_the_share_of_another(tmp_path):
    async def check(runtime, remotes):
        asked = [ask(runtime, value) for value in range(12)]
        await turn()
        for _ in range(2):
            remotes[0].answer()
            await turn()
        assert len(remotes[0].held) == 5  # half of what there was
        while any(remote.held for remote in remotes):
            for remote in remotes:
                if remote.held:
                    remote.answer()
            await turn()
        await asyncio.gather(*asked)

    serving(tmp_path, check, yaml=ALONE + "instances: 2\n")


def test_what_a_dead_instance_did_not_begin_goes_before_what_waits(tmp_path):
    async def check(runtime, remotes):
        dead, living = remotes
        asked = [ask(runtime, value) for value in range(20)]
        await turn()
        dead.answer()
        living.answer()
        await turn()
        given_back = [value for [value] in dead.rows()]
        assert len(given_back) > 2
        dead.give_back(LifeReport(alive=False, reason="it died"))
        kept = len(living.held)
        living.answer()
        await turn()
        assert given_back[0] in [value for [value] in living.rows()[kept - 1 :]]  # though it never was without work
        while living.held:
            living.answer()
            await turn()
        await asyncio.gather(*asked)

    serving(tmp_path, check, yaml=ALONE + "instances: 2\n")


def test_waiting_at_an_instance_is_waiting(tmp_path):
    async def check(runtime, remotes):
        [remote] = remotes
        asked = [ask(runtime, value) for value in range(6)]
        await turn()
        remote.answer()
        await turn()
        held, remote.held = remote.held, []
        assert len(held) == 5
        begin = time.monotonic()
        for at, (batch, on_done) in enumerate(held):
            answers = [Answered({"y": inputs["x"]}) for inputs in batch.inputs]
            on_done(Outcome(answers, begin + at, begin + at + 1.0))  # each ran for a second after the other
        await asyncio.gather(*asked)
        found = runtime.statistics()[0]
        assert round(found.compute_infer.ns / 1e9) == 5
        assert round(found.compute_input.ns / 1e9) == 0
        assert round(found.queue.ns / 1e9) == 0 + 1 + 2 + 3 + 4

    serving(tmp_path, check, yaml=ALONE)


def test_a_request_that_runs_alone_is_freed_without_the_collector():
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=4, alone=True))
    request = InferRequest(model="m", inputs={})
    admitted = Admitted(arrays=(), names=None, rows=1, shape=())
    ticket = Ticket(None, request, admitted, None, print, priority=0, deadline=None, alone=True)
    batcher.add(ticket, 0.0)
    assert batcher.next_batch(0.0) == [ticket]
    assert not any(each is ticket for each in gc.get_referents(ticket))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=30))
def test_what_runs_alone_leaves_one_by_one_by_priority(asked):
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=4, alone=True))
    items = [Waiting(rows=rows, priority=priority) for rows, priority in asked]
    for item in items:
        batcher.add(item, 0.0)
    left = []
    while batch := batcher.next_batch(1.0):
        batcher.check_integrity()
        assert len(batch) == 1
        left += batch
    assert left == sorted(items, key=lambda item: item.priority)
