from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from trilith.orchestration.retry import RetryPolicy
from trilith.orchestration.routing import power_of_two


@dataclass
class Replica:
    in_flight: int
    room: int


replicas_strategy = st.lists(st.builds(Replica, st.integers(0, 50), st.integers(-1, 3)), max_size=8)


@given(replicas_strategy, st.randoms(use_true_random=False))
def test_a_replica_with_room_is_chosen_exactly_when_there_is_one(replicas, source):
    chosen = power_of_two(replicas, source.random)
    if any(replica.room > 0 for replica in replicas):
        assert chosen is not None
        assert chosen.room > 0
        assert any(chosen is replica for replica in replicas)
    else:
        assert chosen is None


@given(st.integers(0, 50), st.integers(0, 50), st.randoms(use_true_random=False))
def test_of_two_the_less_loaded(first, second, source):
    replicas = [Replica(first, 1), Replica(second, 1)]
    assert power_of_two(replicas, source.random).in_flight == min(first, second)


def test_load_stays_balanced_over_many_choices():
    source = random.Random(1)
    replicas = [Replica(0, 10**6) for _ in range(10)]
    for _ in range(10_000):
        power_of_two(replicas, source.random).in_flight += 1
    loads = [replica.in_flight for replica in replicas]
    assert max(loads) - min(loads) <= 10


@given(st.booleans(), st.booleans(), st.integers(1, 10))
def test_what_was_begun_runs_again_only_when_idempotent(begun, idempotent, attempt):
    allowed = RetryPolicy(attempts=3).may_retry(begun=begun, idempotent=idempotent, attempt=attempt)
    assert allowed == (attempt < 3 and (idempotent or not begun))
