"""Desired replicas in, actions out: by example, and by properties over arbitrary observations."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from trilith.core.backoff import StartBackoff
from trilith.orchestration.reconcile import (
    DesiredService,
    Drain,
    Kill,
    Limits,
    ObservedReplica,
    Start,
    Stop,
    reconcile,
)
from trilith.orchestration.state import ReplicaState

NOW = 1000.0
LIMITS = Limits(start_s=100.0, drain_s=30.0, stop_s=5.0)


def observed(replica_id, state=ReplicaState.RUNNING, *, service="a", revision=1, since=NOW):
    return ObservedReplica(replica_id=replica_id, service=service, revision=revision, state=state, since=since)


def plan(desired, replicas, *, kept=(), backoff=None, now=NOW, switched=True, loading=False):
    backoff = backoff or StartBackoff()
    return reconcile(
        desired, kept, replicas, switched=switched, loading=loading, backoff=backoff, limits=LIMITS, now=now
    )


def want(replicas, *, service="a", revision=1):
    return DesiredService(service=service, replicas=replicas, revision=revision)


def test_missing_replicas_are_started():
    assert plan([want(3)], [observed(1)]).actions == (Start("a", 1), Start("a", 1))


def test_starting_replicas_count_as_present():
    assert plan([want(2)], [observed(1), observed(2, ReplicaState.STARTING)]).actions == ()


def test_surplus_drains_the_not_ready_first_then_the_youngest():
    replicas = [observed(1), observed(2, ReplicaState.STARTING), observed(3)]
    assert plan([want(1)], replicas).actions == (Drain(2), Drain(3))


def test_old_revision_serves_until_the_new_one_is_complete():
    old = observed(1, revision=1)
    new = observed(2, ReplicaState.STARTING, revision=2)
    assert plan([want(1, revision=2)], [old, new]).actions == ()
    running = replace(new, state=ReplicaState.RUNNING)
    before = plan([want(1, revision=2)], [old, running], switched=False)
    assert (before.complete, before.actions) == (True, ())  # calls still go to the old one
    assert plan([want(1, revision=2)], [old, running]).actions == (Drain(1),)


def test_one_incomplete_service_keeps_every_old_replica():
    old = [observed(1, revision=1), observed(2, service="b", revision=1)]
    new = [observed(3, revision=2), observed(4, ReplicaState.STARTING, service="b", revision=2)]
    desired = [want(1, revision=2), want(1, service="b", revision=2)]
    made = plan(desired, [*old, *new])
    assert (made.complete, made.actions) == (False, ())


def test_a_seed_is_neither_drained_nor_counted_but_has_its_time():
    seed = observed(1, ReplicaState.STARTING, service="", since=NOW - 99)
    assert plan([], [seed]).actions == ()
    assert plan([], [seed]).wake_at == NOW + 1
    [kill] = plan([], [seed], now=NOW + 1).actions
    assert isinstance(kill, Kill)


def test_a_service_that_is_no_longer_wanted_is_drained():
    assert plan([], [observed(1), observed(2, ReplicaState.STARTING)]).actions == (Drain(1), Drain(2))


def test_replicas_over_their_time_are_killed_and_the_others_wake_the_engine():
    late = observed(1, ReplicaState.STOPPING, since=NOW - 7)
    soon = observed(2, ReplicaState.STOPPING, since=NOW - 1)
    made = plan([], [late, soon])
    assert [action.replica_id for action in made.actions if isinstance(action, Kill)] == [1]
    assert made.wake_at == NOW + 5, "what it reports at the end of its 5 s is still heard"


def test_one_that_drains_for_too_long_is_stopped_in_order_before_it_is_killed():
    late = observed(1, ReplicaState.DRAINING, since=NOW - 31)
    [stop] = plan([], [late]).actions
    assert stop == Stop(1, "draining for more than 30 s")


def test_backoff_delays_a_start_and_says_when():
    backoff = StartBackoff(first_s=1.0)
    backoff.exited(("a", 1), ready_for_s=None, now=NOW)
    made = plan([want(1)], [], backoff=backoff)
    assert made.actions == ()
    assert made.wake_at == NOW + 1.0
    assert plan([want(1)], [], backoff=backoff, now=NOW + 1.0).actions == (Start("a", 1),)


def test_first_death_of_a_replica_that_served_is_replaced_at_once():
    backoff = StartBackoff()
    backoff.exited(("a", 1), ready_for_s=0.5, now=NOW)
    assert plan([want(1)], [], backoff=backoff).actions == (Start("a", 1),)


def test_a_service_that_fails_again_and_again_is_given_up():
    backoff = StartBackoff(attempts=3)
    for _ in range(3):
        backoff.exited(("a", 1), ready_for_s=None, now=NOW)
    assert backoff.given_up(("a", 1))
    made = plan([want(1)], [], backoff=backoff, now=NOW + 1e6)
    assert made.actions == ()
    assert made.wake_at is None
    backoff.forget(("a", 1))
    assert not backoff.given_up(("a", 1))


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=40))
def test_waits_never_exceed_the_most_and_health_clears_them(lives):
    backoff = StartBackoff(first_s=0.1, most_s=10.0, healthy_s=10.0)
    for ready_for_s in lives:
        backoff.exited(("a", 1), ready_for_s=ready_for_s, now=NOW)
        assert NOW <= backoff.not_before(("a", 1)) <= NOW + 10.0
        if ready_for_s is not None:
            assert backoff.failed_starts(("a", 1)) == 0
        if ready_for_s is not None and ready_for_s >= 10.0:
            assert backoff.not_before(("a", 1)) == NOW


def test_a_service_that_becomes_ready_is_never_given_up():
    backoff = StartBackoff(attempts=3)
    for _ in range(50):
        backoff.exited(("a", 1), ready_for_s=0.1, now=NOW)
    assert plan([want(1)], [], backoff=backoff, now=NOW + 10).actions == (Start("a", 1),)


def test_what_is_never_started_again_is_forgotten():
    backoff = StartBackoff(attempts=1)
    for revision in range(100):
        backoff.exited(("a", revision), ready_for_s=None, now=NOW, explained=True)
    backoff.keep(lambda key: key[1] >= 98)
    assert [revision for revision in range(100) if backoff.given_up(("a", revision))] == [98, 99]
    assert all(len(book) == 2 for book in backoff._books if book is not backoff._deaths)
    assert backoff.not_before(("a", 0)) == 0.0


def test_what_serves_is_kept_alive_while_a_change_fails():
    backoff = StartBackoff(attempts=1)
    backoff.exited(("a", 2), ready_for_s=None, now=NOW)
    made = plan([want(1, revision=2)], [], kept=[want(2, revision=1)], backoff=backoff, switched=False)
    assert made.actions == (Start("a", 1), Start("a", 1))
    assert not made.complete
    running = [observed(1, revision=2)]
    assert plan([want(1, revision=2)], running, kept=[want(2, revision=1)], switched=False).complete


replicas_strategy = st.lists(
    st.builds(
        observed,
        st.integers(1, 10_000),
        st.sampled_from([s for s in ReplicaState if s is not ReplicaState.STOPPED]),
        service=st.sampled_from(["a", "b", "gone"]),
        revision=st.integers(1, 2),
        since=st.floats(NOW - 200, NOW),
    ),
    max_size=12,
    unique_by=lambda replica: replica.replica_id,
)


@given(replicas_strategy, st.integers(0, 4), st.integers(0, 4))
def test_actions_move_towards_what_is_wanted(replicas, of_a, of_b):
    desired = [want(of_a, service="a", revision=2), want(of_b, service="b", revision=2)]
    actions = plan(desired, replicas).actions
    live = (ReplicaState.STARTING, ReplicaState.RUNNING)
    by_id = {replica.replica_id: replica for replica in replicas}
    drained = {action.replica_id for action in actions if isinstance(action, Drain)}
    assert plan(desired, replicas, switched=False).complete == plan(desired, replicas).complete
    for entry in desired:
        current = [r for r in replicas if r.service == entry.service and r.revision == 2 and r.state in live]
        started = sum(isinstance(action, Start) and action.service == entry.service for action in actions)
        kept = [r for r in current if r.replica_id not in drained]
        assert len(kept) + started == entry.replicas
    # Nothing that is already leaving is drained again, and every kill names a limit that was overrun.
    assert all(by_id[replica_id].state in live for replica_id in drained)
    for action in actions:
        if isinstance(action, Kill):
            replica = by_id[action.replica_id]
            limit_s = {"starting": LIMITS.start_s, "stopping": LIMITS.stop_s}[replica.state]
            assert NOW - replica.since >= limit_s
        elif isinstance(action, Stop):
            assert NOW - by_id[action.replica_id].since >= LIMITS.drain_s


@given(replicas_strategy)
def test_what_is_as_wanted_is_left_alone(replicas):
    fresh = [replace(r, since=NOW, service="a", revision=1, state=ReplicaState.RUNNING) for r in replicas]
    assert plan([want(len(fresh))], fresh).actions == ()


def test_the_time_of_a_start_does_not_count_while_models_load():
    late = observed(1, ReplicaState.STARTING, since=NOW - 101)
    assert plan([want(1)], [late], loading=True).actions == ()
    assert plan([want(1)], [late]).actions == (Kill(1, "starting for more than 100 s"),)
    seed = observed(2, ReplicaState.STARTING, service="", since=NOW - 101)  # it imports: it waits for no model
    assert plan([], [seed], loading=True).actions == (Kill(2, "starting for more than 100 s"),)


@given(st.floats(0, 1e6), st.sampled_from([ReplicaState.STARTING, ReplicaState.DRAINING, ReplicaState.STOPPING]))
@example(125.7, ReplicaState.STOPPING)
def test_at_the_instant_at_which_it_wants_to_look_again_it_does_something(since, state):
    replicas = [observed(1, state, since=since)]
    made = plan([], replicas, now=since, switched=False)
    assert made.wake_at > since
    assert plan([], replicas, now=made.wake_at, switched=False).actions
