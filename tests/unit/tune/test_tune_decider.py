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
    assert throughput >= 0.9 * max(kept)


def test_observations_told_again_lead_on_from_where_they_were():
    space, measured = server(5)
    first, told, draw = Tuner(space, Objective(), budget=12), [], random.Random(5)
    for _ in range(9):
        proposal = first.propose()
        seen = observation(measured(*proposal.configuration), proposal.share, 0.05, draw)
        told.append((proposal.configuration, seen))
        first.observe(*told[-1])
    again = Tuner(space, Objective(), budget=12)
    for each in told:
        again.observe(*each)
    assert again.propose() == first.propose()
    assert again.best() == first.best()


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
