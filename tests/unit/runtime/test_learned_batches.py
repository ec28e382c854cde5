"""Batch sizes are learned: simulated models, a queue that is full or not, and time as a number."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig
from trilith.runtime import BatchingConfig, DynamicBatcher, Waiting
from trilith.runtime.schedule import BatchSizer, Occupancy
from trilith.runtime.schedule.cost import STALE_AFTER, CostCurve
from trilith.runtime.spec import QueueConfig


def flat(rows):
    return 0.1


def linear(rows):
    return 0.001 * rows


def affine(rows):
    return 0.01 + 0.001 * rows


def superlinear(rows):
    return 0.001 * rows**1.3


def dip(rows):
    """Best at 4: beyond it the caches are too small."""
    return 0.004 + 0.001 * rows + (0.01 * (rows - 4) if rows > 4 else 0.0)


class Saturated:
    """A model whose queue is always full."""

    def __init__(self, max_rows=16, **options):
        self.sizer = BatchSizer(max_rows, **options)
        self.rows = max_rows

    def run(self, cost, batches, noise=lambda: 1.0):
        """The sizes that were run, and how much longer that took than at the best size throughout."""
        sizes, spent = [], 0.0
        for _ in range(batches):
            rows = self.sizer.choose(None, self.rows)
            seconds = cost(rows) * noise()
            self.sizer.observe(None, rows, seconds)
            sizes.append(rows)
            spent += cost(rows)
        best = min(cost(rows) / rows for rows in range(1, self.rows + 1))
        return sizes, spent / (sum(sizes) * best) - 1.0


@pytest.mark.parametrize(
    ("cost", "expected"), [(flat, 16), (affine, 16), (superlinear, 1), (dip, 4), (linear, 1)], ids=lambda value: None
)
def test_it_converges_to_the_best_size_and_loses_little_on_the_way(cost, expected):
    sizes, loss = Saturated().run(cost, 1000)
    assert sizes[100:].count(expected) > 0.9 * len(sizes[100:])
    assert loss < 0.06


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("cost", "expected"), [(affine, 16), (superlinear, 1), (dip, 4)], ids=lambda value: None)
def test_noise_and_slow_runs_do_not_mislead_it(cost, expected, seed):
    dice = random.Random(seed)

    def noise():
        return 20.0 if dice.random() < 0.05 else dice.uniform(0.8, 1.3)

    sizes, _ = Saturated().run(cost, 2000, noise)
    assert sizes[1000:].count(expected) > 0.9 * 1000


@pytest.mark.parametrize(("before", "after", "expected"), [(superlinear, flat, 16), (flat, superlinear, 1)])
def test_a_model_that_changes_is_learned_anew(before, after, expected):
    model = Saturated()
    model.run(before, 300)
    sizes, _ = model.run(after, 3000)
    assert sizes[-500:].count(expected) > 0.9 * 500


def test_no_size_that_takes_too_long_is_chosen():
    sizes, _ = Saturated(max_latency_s=0.015).run(affine, 400)
    assert sizes[20:].count(4) > 0.9 * len(sizes[20:])
    sizes, _ = Saturated(max_latency_s=0.0001).run(affine, 400)
    assert sizes[20:].count(1) > 0.9 * len(sizes[20:]), "a request must run, however long it takes"


def test_shapes_are_learned_apart_and_old_ones_forgotten():
    sizer = BatchSizer(8)
    for _ in range(20):
        for shape, cost in (("wide", superlinear), ("narrow", flat)):
            rows = sizer.choose(shape, 8)
            sizer.observe(shape, rows, cost(rows))
    wide, narrow = (sizer.learned(shape, sizer.curve(shape)) for shape in sizer.shapes())
    assert (wide.shape, wide.chosen_rows, narrow.shape, narrow.chosen_rows) == ("wide", 1, "narrow", 8)
    for number in range(100):
        sizer.observe(number, 1, 1.0)
    assert len(sizer.shapes()) == 64
    assert sizer.curve("wide") is None


@given(st.lists(st.tuples(st.integers(1, 16), st.floats(1e-6, 10.0)), max_size=60), st.integers(1, 40))
def test_it_chooses_what_waits_whatever_it_saw(runs, waiting):
    sizer = BatchSizer(16)
    for rows, seconds in runs:
        sizer.observe(None, rows, seconds)
        assert 1 <= sizer.choose(None, waiting) <= min(waiting, 16)
    for shape in sizer.shapes():
        sizer.learned(shape, sizer.curve(shape))


def test_requests_of_several_rows_are_not_tried_for_ever():
    """With three rows each no batch of 1, 2, 4, 8 or 16 rows can be formed."""
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=16), sizer=(sizer := BatchSizer(16)))
    sizes = []
    for now in range(300):
        while batcher.waiting_rows < 30:
            batcher.add(Waiting(rows=3), float(now))
        rows = sum(item.rows for item in batcher.next_batch(float(now)))
        sizer.observe(None, rows, flat(rows))
        sizes.append(rows)
    assert sizes[20:].count(15) > 0.9 * len(sizes[20:])


def served(unit, batches, unlucky, seed):
    """The last sizes where one to eight requests of `unit` rows wait, and a size's first runs are slow."""
    dice, seen, sizes = random.Random(seed), Counter(), []
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=8), sizer=(sizer := BatchSizer(8)))
    for now in range(batches):
        wanted = dice.randint(1, 8) * unit
        while batcher.waiting_rows < wanted:
            batcher.add(Waiting(rows=unit), float(now))
        waited = batcher.waiting_rows
        rows = sum(item.rows for item in batcher.next_batch(float(now)))
        seen[rows] += 1
        slow = 10.0 if rows > unit and seen[rows] <= unlucky else 1.0
        sizer.observe(None, rows, (5e-5 + 1e-6 * rows) * dice.lognormvariate(0, 0.3) * slow)
        sizes.append((rows, min(waited, 8)))
    return sizes[-1000:]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("unlucky", [0, 1, 2])
@pytest.mark.parametrize("unit", [1, 2])
def test_what_waits_goes_together_whatever_the_first_runs_were_like(unit, unlucky, seed):
    """Also where no request has the single row of which the smallest batch would be."""
    assert sum(rows == waited for rows, waited in served(unit, 3000, unlucky, seed)) > 900


def test_the_curve_is_what_runs_take_on_average_and_a_line_between_sizes():
    curve = CostCurve()
    assert (curve.seconds(3), curve.line(), curve.doubt(3)) == (0.0, (0.0, 0.0), float("inf"))
    curve.observe(2, 9.0)
    assert curve.seconds(2) == 9.0
    curve.observe(2, 1.0)
    assert curve.seconds(2) == 1.0, "of two the smaller"
    assert (curve.seconds(1), curve.seconds(4)) == (1.0, 1.0)
    curve.observe(4, 3.0)
    assert curve.seconds(3) == 2.0
    assert curve.seconds(6) >= 3.0
    assert (curve.at_least(2), curve.at_least(3)) == (0.0, 1.0)
    assert curve.at_least(9) == 1.0, "one run of 4 rows says nothing of 9"
    curve.observe(4, 3.0)
    assert curve.at_least(9) == 3.0
    assert [(point.rows, point.runs) for point in curve.points()] == [(2, 2), (4, 2)]


def test_what_counts_is_the_mean():
    curve = CostCurve()
    for _ in range(200):
        for seconds in (1.0, 1.0, 1.0, 3.0):
            curve.observe(1, seconds)
    assert curve.seconds(1) == pytest.approx(1.5, rel=0.25)


def test_a_slow_run_counts_little_and_several_in_succession_are_believed():
    curve = CostCurve()
    for _ in range(50):
        curve.observe(1, 1.0)
    curve.observe(1, 100.0)
    assert curve.seconds(1) == pytest.approx(1.0, rel=0.1)
    curve.observe(1, 100.0)
    curve.observe(1, 100.0)
    assert curve.seconds(1) == pytest.approx(100.0, rel=0.2)
    for _ in range(3):
        curve.observe(1, 1.0)
    assert curve.seconds(1) == pytest.approx(1.0, rel=0.25)


def test_a_slow_machine_is_slow_for_sizes_that_do_not_run_too():
    curve = CostCurve()
    for _ in range(50):
        curve.observe(1, 1.0)
        curve.observe(8, 4.0)
    for _ in range(200):
        curve.observe(8, 8.0)
    assert curve.seconds(8) == pytest.approx(8.0, rel=0.05)
    assert curve.seconds(1) == pytest.approx(2.0, rel=0.15)


def test_the_line_is_that_of_the_runs():
    curve = CostCurve()
    for _ in range(30):
        for rows in (1, 4, 16):
            curve.observe(rows, affine(rows))
    assert curve.line() == (pytest.approx(0.01), pytest.approx(0.001))


def test_what_is_known_of_a_size_fades_while_others_run():
    curve = CostCurve()
    for _ in range(8):
        curve.observe(8, 1.0)
    before = curve.doubt(8)
    for _ in range(STALE_AFTER):
        curve.observe(1, 0.5)
    assert (curve.age(8), curve.age(1), curve.age(2)) == (STALE_AFTER, 0, float("inf"))
    assert curve.doubt(1) < curve.doubt(8)
    assert before > 0.0
    for _ in range(12):
        curve.observe(8, 3.0)
    assert curve.seconds(8) == pytest.approx(3.0, rel=0.25)


def simulate(arrivals, cost, batcher, sizer):
    """When each request was answered, by one instance that takes whatever waits when it falls free."""
    answered, now, pending = [], 0.0, list(arrivals)
    while pending or len(batcher):
        if not len(batcher):
            now = max(now, pending[0])
        while pending and pending[0] <= now:
            batcher.add(Waiting(), pending.pop(0))
        batch = batcher.next_batch(now)
        assert batch, "idle while something waits"
        seconds = cost(len(batch))
        now += seconds
        sizer.observe(None, len(batch), seconds)
        answered += [now - item.enqueued_at for item in batch]
    return now, answered


def test_100_requests_at_200_a_second_to_a_model_that_takes_100_ms_for_up_to_16():
    sizer = BatchSizer(16)
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=16), sizer=sizer)
    ended, answered = simulate([at / 200 for at in range(100)], flat, batcher, sizer)
    assert len(answered) == 100
    assert ended <= 0.85  # no batch is spent on learning what the first two say
    assert max(answered) <= 0.9


@pytest.mark.parametrize("seed", range(20))
def test_the_same_where_neither_the_clients_nor_the_model_are_regular(seed):
    dice = random.Random(seed)
    sizer = BatchSizer(16)
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=16), sizer=sizer)
    arrivals = sorted(max(0.0, at / 200 + dice.uniform(-0.01, 0.01)) for at in range(100))
    ended, answered = simulate(arrivals, lambda rows: 0.1 * dice.uniform(0.97, 1.03), batcher, sizer)
    assert len(answered) == 100
    assert ended - arrivals[0] <= 0.9


def test_nothing_is_held_back_when_the_load_is_low():
    sizer = BatchSizer(16)
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=16), sizer=sizer)
    _, answered = simulate([at * 0.2 for at in range(200)], flat, batcher, sizer)
    assert max(answered) == pytest.approx(0.1)


@pytest.mark.parametrize(("way_s", "expected"), [(0.0, 1), (0.002, 16)])
def test_what_each_batch_pays_on_its_way_counts(way_s, expected):
    """Rows that take the same each gain by batches as soon as each batch must be taken, sent and fetched."""
    sizer, occupancy = BatchSizer(16), Occupancy()
    batcher = DynamicBatcher(BatchingConfig(max_batch_size=16), sizer=sizer)
    now, sizes = 0.0, []
    for _ in range(400):
        while len(batcher) < 32:
            batcher.add(Waiting(), now)
        now += way_s
        batch = batcher.next_batch(now)
        began, now = now, now + linear(len(batch))
        took_s = occupancy.seconds(0, enqueued_at=batch[0].enqueued_at, batched_at=began, ended_at=now)
        sizer.observe(None, len(batch), took_s)
        sizes.append(len(batch))
    assert sizes[100:].count(expected) > 0.85 * len(sizes[100:])


@pytest.mark.parametrize(
    ("numbers", "learns"),
    [
        ({}, True),
        ({"preferred_rows": (4,)}, False),
        ({"max_wait_s": 0.1}, False),
        ({"max_wait_s": 0.1, "adaptive": True}, True),
        ({"adaptive": False}, False),
        ({"batching": False, "adaptive": True}, False),
    ],
)
def test_sizes_are_learned_where_nobody_says_them(numbers, learns):
    assert QueueConfig(**numbers).learns is learns


def test_learned_or_preferred():
    with pytest.raises(InvalidConfig, match="either learned"):
        QueueConfig(adaptive=True, preferred_rows=(4,))
