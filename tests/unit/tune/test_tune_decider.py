import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from surfaces import observation, searched, server

from trilith.measure.tune.decider import SHORT, Tuner
from trilith.measure.tune.objective import Objective, Observation
from trilith.measure.tune.space import Space, knob
from trilith.measure.tune.verdict import judge


@pytest.mark.parametrize("seed", [4, 9])
def test_a_search_comes_within_a_tenth_of_a_sweep_in_a_fifth_of_its_measurements(seed):
    space, measured = server(seed)
    best = max(measured(*each)[0] for each in space)
    tuner = searched(space, measured, budget=24, noise=0.05, seed=seed)
    assert measured(*tuner.best())[0] >= 0.9 * best
    assert tuner.spent <= space.size / 5


def test_a_bound_on_the_latency_is_kept():
    space = Space([knob("A.read.max_batch", [1, 2, 4, 8, 16, 32]), knob("A.replicas", [1, 2, 3, 4, 5, 6])])
    objective = Objective(p99_s=0.06)

    def measured(batch, replicas):
        return 100 * batch**0.5 * replicas**0.7, 0.005 * batch * (1 + 0.1 * replicas)

    kept = [measured(*each)[0] for each in space if measured(*each)[1] <= objective.p99_s]
    tuner = searched(space, measured, budget=12, noise=0.02, objective=objective)
    throughput, p99_s = measured(*tuner.best())
    assert p99_s <= objective.p99_s
    assert throughput >= 0.85 * max(kept)


def test_observations_told_again_lead_on_from_where_they_were_at_every_one_of_them():
    space, measured = server(5)
    first, told, draw = Tuner(space, Objective(), budget=10), [], random.Random(5)
    later = Tuner(space, Objective(), budget=10)  # not told which part a measurement belongs to
    while True:
        again = Tuner(space, Objective(), budget=10)
        for each in told:
            again.observe(*each)
        proposal = first.propose()
        assert first.propose() == proposal == again.propose() == later.propose()
        if proposal is None:
            break
        seen = observation(measured(*proposal.configuration), proposal.share, 0.3, draw)
        told.append((proposal.configuration, seen, proposal.part))
        assert first.observe(proposal.configuration, seen) == proposal.part
        later.observe(proposal.configuration, seen)
    assert {part for _, _, part in told} >= {"start", "spread", "search", "choice", "final"}
    assert again.best() == first.best() == later.best()


def test_where_every_setting_is_as_good_no_gain_is_found():
    space = Space([knob("A.x", [1, 2, 4, 8], current=1), knob("A.y", [1, 2, 4, 8], current=1)])
    found = [judge(searched(space, lambda *_: (100.0, 0.1), budget=10, noise=0.2, seed=seed)) for seed in range(14)]
    assert sum(verdict.low > 1.0 for verdict in found) <= 1  # 95 of 100 intervals hold 1, so that 1 in 40 is above it
    assert sum(verdict.rounds >= 4 for verdict in found) >= 7


def test_the_final_is_measured_in_turn_and_alone_says_what_is_gained():
    space = Space([knob("A.x", [1, 2, 3], current=1)])
    tuner, finals = Tuner(space, Objective(), budget=10), []
    while (proposal := tuner.propose()) is not None:
        (x,) = proposal.configuration
        is_final = proposal.part == "final"
        throughput = (120.0 if is_final else 300.0) if x == 3 else 100.0  # luck before, none in the final
        finals += [x] if is_final else []
        tuner.observe(proposal.configuration, observation((throughput, 0.1), proposal.share, 0.0, random.Random(1)))
    assert finals[:8] == [3, 1, 1, 3, 3, 1, 1, 3]
    verdict = judge(tuner)
    assert verdict.ratio == pytest.approx(1.2)
    assert 1.1 < verdict.low < 1.2 < verdict.high < 1.3
    assert tuner.figures((3,)).throughput_per_s == pytest.approx(120.0)


def test_a_small_budget_is_enough_for_one_other_and_a_round():
    space = Space([knob("A.x", [1, 2], current=1)])
    tuner = searched(space, lambda x: (100.0 * x, 0.1), budget=2, noise=0.0)
    assert tuner.spent == 2.0
    verdict = judge(tuner)
    assert (verdict.winner, verdict.ratio, verdict.rounds) == ((2,), pytest.approx(2.0), 1)
    assert verdict.low == 0.0  # one round does not say how sure it is


def test_what_is_no_better_in_the_final_is_no_winner():
    space = Space([knob("A.x", [1, 2], current=1)])
    tuner = Tuner(space, Objective(), budget=6)
    for throughput in (150.0, 150.0):
        tuner.observe((2,), observation((throughput, 0.1), 0.5, 0.0, random.Random(1)), "search")
        tuner.observe((1,), observation((100.0, 0.1), 0.5, 0.0, random.Random(1)), "start")
    while (proposal := tuner.propose()) is not None:
        throughput = 95.0 if proposal.configuration == (2,) else 100.0
        tuner.observe(proposal.configuration, observation((throughput, 0.1), 0.5, 0.0, random.Random(1)))
    assert tuner.chosen == (2,)
    assert tuner.best() == (1,)
    assert judge(tuner).effects == ()


def test_what_fails_is_not_proposed_again_and_ends_no_search():
    space = Space([knob("A.replicas", [1, 2, 4, 8]), knob("A.threads", [1, 2, 4])])
    tuner = Tuner(space, Objective(), budget=8)
    seen, draw = [], random.Random(2)
    while (proposal := tuner.propose()) is not None:
        replicas, threads = proposal.configuration
        if replicas > 2:
            seen.append(proposal.configuration)
            tuner.observe(proposal.configuration, Observation(share=proposal.share, failure="no room"))
        else:
            tuner.observe(proposal.configuration, observation((replicas * threads, 0.1), proposal.share, 0.01, draw))
    assert len(seen) == len(set(seen))
    assert tuner.best() == (2, 4)
    assert judge(tuner).failures == (("no room", seen[0]),)


def test_when_everything_fails_there_is_no_winner():
    space = Space([knob("A.replicas", [1, 2])])
    tuner = Tuner(space, Objective(), budget=4)
    while (proposal := tuner.propose()) is not None:
        tuner.observe(proposal.configuration, Observation(share=proposal.share, failure="no"))
    assert tuner.best() is None
    assert judge(tuner).winner is None


def test_a_change_that_does_nothing_is_not_made():
    space = Space([knob("A.replicas", [1, 2], current=1), knob("A.threads", [1, 2, 4, 8], current=4)])
    tuner = searched(space, lambda replicas, threads: (100.0 * replicas, 0.1), budget=8, noise=0.002)
    assert tuner.best() == (2, 4)
    verdict = judge(tuner)
    assert [effect.path for effect in verdict.effects] == ["A.replicas"]
    assert verdict.low < 2.0 < verdict.high or verdict.ratio == pytest.approx(2.0, rel=0.02)


def test_luck_in_one_measurement_does_not_win():
    space = Space([knob("A.threads", list(range(1, 13)), current=6)])
    tuner, lucky = Tuner(space, Objective(), budget=12), 0
    for number in count():
        proposal = tuner.propose()
        if proposal is None:
            break
        (threads,) = proposal.configuration
        throughput = 100.0 - 2 * abs(threads - 8)
        if number == 1:
            lucky, throughput = threads, 130.0
        tuner.observe(proposal.configuration, observation((throughput, 0.1), proposal.share, 0.01, random.Random(1)))
    assert lucky not in (0, 8)
    assert abs(tuner.best()[0] - 8) <= 1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 12), st.sampled_from([0.0, 0.1]))
def test_a_search_keeps_its_budget_and_measures_what_there_is_now(seed, budget, noise):
    space = Space([knob("A.replicas", [1, 2, 3], current=2), knob("A.cpu", [None, 1, 2])])
    draw = random.Random(seed)
    surface = {each: draw.uniform(1, 100) for each in space}
    tuner = searched(space, lambda *each: (surface[each], 0.1), budget=budget, noise=noise, seed=seed)
    assert tuner.spent <= max(budget, 1) + 2 * SHORT  # two short ones, where the result is in doubt
    assert space.start in tuner.evidence
    assert tuner.best() in surface
