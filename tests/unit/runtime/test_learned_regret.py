"""What learning costs: a model whose queue is always full, in worlds that disturb, beside the best fixed size.

Everything is a number here, the time and the dice too: a run of these tests is like any other.
"""

import math
import random

import pytest

from trilith.runtime.schedule import BatchSizer

WIDTHS = (64, 96, 128, 192, 256, 320)


def widest(rows):
    """The widest of so many rows, on average."""
    steps = zip((0, *WIDTHS), WIDTHS, strict=False)
    return sum((b - a) * (1 - (at / len(WIDTHS)) ** rows) for at, (a, b) in enumerate(steps))


class World:
    """A model and the machine that it runs on.

    Args:
        cost: seconds of a batch, of its rows and the width that all are padded to.
        largest: rows.
        seed: of its dice.
        spread: standard deviation of the logarithm of each run.
        slow: share of runs that a neighbour disturbs: they take up to twenty times as long.
        swing: the machine's speed changes by up to this factor ...
        dwell: ... after so many runs, on average.
        mixed: whether rows have different widths.
    """

    def __init__(self, cost, *, largest=16, seed=0, spread=0.02, slow=0.0, swing=1.0, dwell=100, mixed=False):
        self.cost, self.largest = cost, largest
        self.dice = random.Random(seed)
        self.spread, self.slow, self.swing, self.dwell, self.mixed = spread, slow, swing, dwell, mixed
        self.speed, self.change_at = 1.0, 0.0

    def take(self, number, rows):
        if self.swing > 1.0 and number >= self.change_at:
            self.change_at += self.dice.expovariate(1 / self.dwell)
            self.speed = math.exp(self.dice.uniform(0.0, math.log(self.swing)))
        width = max(self.dice.choice(WIDTHS) for _ in range(rows)) if self.mixed else 1
        seconds = self.cost(rows, width) * self.speed * math.exp(self.dice.gauss(0.0, self.spread))
        return seconds * (self.dice.uniform(2.0, 20.0) if self.dice.random() < self.slow else 1.0)

    def expected(self, rows):
        return self.cost(rows, widest(rows) if self.mixed else 1)

    def regret(self, runs, since=0, alone=0):
        """How much longer the rows took than at the best size, by what each size takes on average.

        Before that so many single rows came, as from one client that warms a model up.
        """
        sizer, spent, served = BatchSizer(self.largest), 0.0, 0
        for number in range(alone):
            sizer.observe(None, 1, self.take(-1, 1) * (1.8 if number < 2 else 1.0))
        for number in range(runs):
            rows = sizer.choose(None, self.largest)
            sizer.observe(None, rows, self.take(number, rows))
            if number >= since:
                spent += self.expected(rows)
                served += rows
        return spent / served / min(self.expected(rows) / rows for rows in range(1, self.largest + 1)) - 1.0


def wide(rows, width):
    """A wide network: the largest batch is best."""
    return 0.0024 + 0.00025 * rows


def convex(rows, width):
    return 0.001 * rows**1.3


def dip(rows, width):
    """Best at 4; twice as many take six times as long."""
    return 0.004 + 0.001 * rows + (0.01 * (rows - 4) if rows > 4 else 0.0)


def padded(rows, width):
    """Rows of different widths, padded to the widest: one row is best."""
    return 0.0006 + 0.00003 * rows * width


def mean(values):
    found = list(values)
    return sum(found) / len(found)


@pytest.mark.parametrize(("cost", "most"), [(wide, 0.01), (convex, 0.03), (dip, 0.03)])
def test_little_is_lost_on_a_quiet_machine(cost, most):
    assert mean(World(cost, seed=seed).regret(1500, since=100) for seed in range(3)) < most


def test_padding_is_weighed_by_the_mean_and_not_by_the_median():
    """Rows of one width take what they take; of two together the wider counts, whose median lies elsewhere."""
    worlds = [World(padded, largest=8, seed=seed, mixed=True) for seed in range(4)]
    assert mean(world.regret(4000, since=200) for world in worlds) < 0.03


def test_luck_in_the_first_runs_of_a_size_is_not_taken_for_a_slower_machine():
    """Two narrow batches of two come first: one row, which has not run since, is still the best."""
    losses = [World(padded, largest=8, seed=seed, mixed=True).regret(500, 250, alone=30) for seed in range(60)]
    assert mean(losses) < 0.035


def test_a_slow_first_run_does_not_keep_a_size_from_being_tried():
    """One run of two rows that a neighbour disturbed says nothing of four rows."""
    losses = [World(dip, seed=seed, slow=0.1).regret(400, since=50) for seed in range(20)]
    assert mean(losses) < 0.03
    assert max(losses) < 0.1


@pytest.mark.parametrize("dwell", [20, 300])
@pytest.mark.parametrize("swing", [1.5, 3.0])
def test_a_machine_whose_speed_changes_does_not_mislead_it(dwell, swing):
    """What ran while the machine was fast is not taken to be better than what runs while it is slow."""
    disturbed = {"spread": 0.1, "swing": swing, "dwell": dwell}
    losses = []
    for seed in range(3):
        worlds = [
            World(wide, largest=32, seed=seed, **disturbed),
            World(convex, seed=seed, **disturbed),
            World(dip, seed=seed, **disturbed),
            World(padded, largest=8, seed=seed, mixed=True, **disturbed),
        ]
        losses += [world.regret(1500, since=200) for world in worlds]
    assert mean(losses) < 0.035
    assert max(losses) < 0.15
