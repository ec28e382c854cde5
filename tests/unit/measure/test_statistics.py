import math
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trilith.measure.statistics import (
    MOST_ROUNDS,
    RatioEstimate,
    Verdict,
    judge,
    noise_of,
    paired_ratio,
    rounds_needed,
    too_noisy,
)
from trilith.measure.student import student_probability, student_quantile

figures = st.floats(1e-3, 1e3)
pairs = st.lists(st.tuples(figures, figures), min_size=1, max_size=30)


def estimate_of(rounds, **options):
    return paired_ratio([first for first, _ in rounds], [second for _, second in rounds], **options)


def estimate(low, high):
    return RatioEstimate(
        ratio=math.sqrt(low * high), low=low, high=high, confidence=0.95, rounds=10, noise=0.1, method="student"
    )


@pytest.mark.parametrize(
    ("degrees", "quantile"),  # the columns of 0.975 of any printed table
    [(1, 12.7062), (2, 4.3027), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1000, 1.9623)],
)
def test_quantiles_are_those_of_the_tables(degrees, quantile):
    assert student_quantile(0.975, degrees) == pytest.approx(quantile, abs=5e-5)


@settings(max_examples=15)
@given(st.floats(0.001, 0.999), st.floats(1, 500))
def test_a_quantile_undoes_the_probability(probability, degrees):
    assert student_probability(student_quantile(probability, degrees), degrees) == pytest.approx(probability, abs=1e-9)


@settings(max_examples=30)
@given(pairs, st.floats(1e-3, 1e3))
def test_the_unit_of_the_figures_does_not_matter(rounds, unit):
    plain = estimate_of(rounds)
    scaled = estimate_of([(first * unit, second * unit) for first, second in rounds])
    assert scaled.ratio == pytest.approx(plain.ratio)
    assert scaled.low == pytest.approx(plain.low)
    assert plain.low <= plain.ratio <= plain.high


@settings(max_examples=30)
@given(pairs)
@example([(1.0, 1.0)] * 9 + [(1.0, 2.0)])  # equal rounds are none that resemble each other more, either way round
@example([(1.0, 1.0)] * 12)
def test_the_other_way_round_is_the_inverse(rounds):
    order = [place % 2 == 0 for place in range(len(rounds))]
    there = estimate_of(rounds, baseline_first=order)
    back = estimate_of([(second, first) for first, second in rounds], baseline_first=[not first for first in order])
    assert back.ratio == pytest.approx(there.inverse().ratio)
    assert back.low == pytest.approx(there.inverse().low)
    assert back.high == pytest.approx(there.inverse().high)


@pytest.mark.parametrize("count", [4, 10, 31])
def test_what_is_shared_by_a_round_and_what_the_order_does_fall_out(count):
    chance = random.Random(7)
    weather = [chance.lognormvariate(0, 1) for _ in range(count)]
    order = [place % 2 == 0 for place in range(count)]
    # The second of a round is always 20 % slower, whoever it is; the other is truly 1.5 times as fast.
    baseline = [each if first else each * 0.8 for each, first in zip(weather, order, strict=True)]
    other = [1.5 * each * (0.8 if first else 1.0) for each, first in zip(weather, order, strict=True)]
    found = paired_ratio(baseline, other, baseline_first=order)
    assert found.ratio == pytest.approx(1.5)
    assert found.width == pytest.approx(0, abs=1e-9)


def with_neighbours(chance):
    """Normal noise; in one of ten cases somebody else takes the machine."""
    return chance.gauss(0, 0.05) - (chance.expovariate(2.0) if chance.random() < 0.1 else 0.0)


@pytest.mark.parametrize("noise", [lambda chance: chance.gauss(0, 0.05), with_neighbours], ids=["normal", "neighbours"])
@pytest.mark.parametrize("rounds", [6, 30])
def test_the_interval_holds_the_truth_in_most_of_many_tries(noise, rounds):
    """Under a drift that both share. 95 % are promised; 150 tries give 137 or more of them with a chance of 97 %."""
    chance = random.Random(11)
    held = 0
    for _ in range(150):
        level, logs = 0.0, []
        for _ in range(2 * rounds):
            level += chance.gauss(-0.01, 0.03)
            logs.append(level + noise(chance))
        order = [place % 2 == 0 for place in range(rounds)]
        slots = list(zip(logs[::2], logs[1::2], strict=True))
        baseline = [math.exp(slot[0 if first else 1]) for slot, first in zip(slots, order, strict=True)]
        other = [1.3 * math.exp(slot[1 if first else 0]) for slot, first in zip(slots, order, strict=True)]
        held += paired_ratio(baseline, other, baseline_first=order).contains(1.3)
    assert held >= 137


def test_bad_luck_in_runs_widens_the_interval():
    chance = random.Random(3)
    steps, level = [], 0.0
    for _ in range(60):
        level = 0.8 * level + chance.gauss(0, 0.1)
        steps.append(math.exp(level))
    mixed = sorted(steps, key=lambda _: chance.random())
    assert paired_ratio([1.0] * 60, steps).width > 1.3 * paired_ratio([1.0] * 60, mixed).width


def test_the_noise_tells_of_as_many_rounds_as_the_interval_needs():
    """Of rounds that resemble their neighbours, as many again give that interval again, not a shorter one."""
    chance = random.Random(3)
    level, ratios = 0.0, []
    for _ in range(60):
        level = 0.8 * level + chance.gauss(0, 0.1)
        ratios.append(math.exp(level))
    found = paired_ratio([1.0] * 60, ratios)
    assert 50 <= rounds_needed(found.noise, found.width) <= 70


def test_a_few_lost_rounds_neither_move_nor_widen_the_interval():
    chance = random.Random(5)
    quiet = [math.exp(chance.gauss(0, 0.05)) for _ in range(40)]
    hit = [value * 0.2 if place in (3, 17, 29) else value for place, value in enumerate(quiet)]
    assert paired_ratio([1.0] * 40, hit).width < 1.3 * paired_ratio([1.0] * 40, quiet).width
    assert paired_ratio([1.0] * 40, hit).ratio == pytest.approx(1.0, abs=0.04)


def test_counts_that_agree_by_chance_are_not_exact():
    assert paired_ratio([2.0, 2.0], [3.0, 3.0]).width == pytest.approx(0)
    assert paired_ratio([2.0, 2.0], [3.0, 3.0], least_noise=0.2).width > 1
    spread = [1.0, 1.5, 0.7, 1.2]
    assert paired_ratio([1.0] * 4, spread, least_noise=0.001) == paired_ratio([1.0] * 4, spread)


def test_one_round_says_nothing():
    found = paired_ratio([1.0], [2.0])
    assert (found.ratio, found.low, found.high) == (2.0, 0.0, math.inf)
    assert found.inverse().high == math.inf
    assert judge(found) is Verdict.UNCLEAR
    assert too_noisy(found)


@pytest.mark.parametrize(("baseline", "other"), [([], []), ([1.0], []), ([1.0], [0.0]), ([1.0], [math.inf])])
def test_what_has_no_ratio_is_refused(baseline, other):
    with pytest.raises(ValueError, match=r"rounds|above 0"):
        paired_ratio(baseline, other)


@settings(max_examples=10)
@given(st.floats(0.001, 1), st.floats(0.01, 2))
def test_so_many_rounds_are_enough_and_fewer_are_not(noise, width):
    def width_of(rounds):
        degrees = rounds - 2 if rounds >= 4 else rounds - 1
        return math.exp(2 * student_quantile(0.975, degrees) * math.log1p(noise) / math.sqrt(rounds)) - 1

    rounds = rounds_needed(noise, width)
    assert rounds == MOST_ROUNDS or width_of(rounds) <= width * (1 + 1e-9)
    assert rounds == 2 or width_of(rounds - 1) > width


def test_noise_and_drift_are_told_apart():
    chance = random.Random(1)
    rising = [math.exp(0.01 * place + chance.gauss(0, 0.02)) for place in range(100)]
    noise = noise_of(rising)
    assert noise.step == pytest.approx(0.02, rel=0.3)
    assert noise.spread > 0.2
    assert noise.drift == pytest.approx(math.exp(0.99) - 1, rel=0.05)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.1, 1.3, Verdict.HIGHER),
        (0.8, 0.9, Verdict.LOWER),
        (0.97, 1.04, Verdict.SAME),
        (1.01, 1.04, Verdict.SAME),  # a difference, and none that matters
        (0.9, 1.2, Verdict.UNCLEAR),
    ],
)
def test_what_an_interval_allows_to_say(low, high, verdict):
    assert judge(estimate(low, high)) is verdict


def test_too_noisy_is_what_could_be_a_gain_or_a_loss():
    assert too_noisy(estimate(0.7, 1.6))
    assert not too_noisy(estimate(1.1, 2.0))
    assert not too_noisy(estimate(0.9, 1.1))
