from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.orchestration.health import HealthWatch
from trilith.orchestration.refusals import replica_lost

LIMIT_S = 10.0


def test_silence_is_a_verdict():
    watch = HealthWatch(LIMIT_S)
    assert watch.look("a", heard_at=100.0, stuck=False, now=109.9) is None
    assert "not heard" in watch.look("a", heard_at=100.0, stuck=False, now=110.0)


def test_a_silence_that_began_just_before_the_next_sign_of_life_is_as_long_as_any():
    watch = HealthWatch(LIMIT_S, heard_every_s=2.0)
    assert watch.look("a", heard_at=100.0, stuck=False, now=111.9) is None
    assert "not heard for 12.0 s" in watch.look("a", heard_at=100.0, stuck=False, now=112.0)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 6.0)), max_size=40))
def test_stuck_is_a_verdict_only_without_a_break(steps):
    watch = HealthWatch(LIMIT_S)
    now, since = 100.0, None
    for stuck, passed in steps:
        now += passed
        since = (since if since is not None else now) if stuck else None
        verdict = watch.look("a", heard_at=now, stuck=stuck, now=now)
        assert (verdict is not None) == (since is not None and now - since >= LIMIT_S)


def test_a_batch_that_nobody_waits_for_and_that_never_ends_is_a_verdict():
    watch = HealthWatch(LIMIT_S)
    assert watch.look("a", heard_at=109.0, stuck=False, overdue_at=100.0, now=109.9) is None
    assert "still runs 10.0 s after its time limit" in watch.look(
        "a", heard_at=110.0, stuck=False, overdue_at=100.0, now=110.0
    )
    assert watch.look("a", heard_at=110.0, stuck=False, overdue_at=None, now=110.0) is None
    assert watch.look("a", heard_at=110.0, stuck=False, overdue_at=160.0, now=110.0) is None


def test_replicas_do_not_share_their_trouble():
    watch = HealthWatch(LIMIT_S)
    watch.look("a", heard_at=100.0, stuck=True, now=100.0)
    assert watch.look("b", heard_at=111.0, stuck=True, now=111.0) is None
    watch.forget("a")
    assert watch.look("a", heard_at=111.0, stuck=True, now=111.0) is None


def test_silence_is_explained_for_plain_methods_too():
    why = HealthWatch(LIMIT_S).look("a", heard_at=0.0, stuck=False, now=20.0)
    assert "in any method that keeps Python's lock" in why


def test_what_was_found_is_known_until_the_replica_is_gone():
    watch = HealthWatch(LIMIT_S)
    assert not watch.found("a")
    assert watch.find("a", heard_at=0.0, stuck=False, now=20.0) is not None
    assert watch.find("a", heard_at=0.0, stuck=False, now=30.0) is None
    assert watch.found("a")
    watch.forget("a")
    assert not watch.found("a")


def test_a_caller_whose_replica_hung_is_not_told_to_have_it_sent_again():
    route = SimpleNamespace(service="A", method="compute", idempotent=False, is_mount=False)
    assert "idempotent" in replica_lost(route, 1).message
    hung = replica_lost(route, 1, unwell=True).message
    assert "idempotent" not in hung
    assert "hung and was ended" in hung
    assert "after 3 attempts" in replica_lost(route, 3, unwell=True).message


@pytest.mark.parametrize(("items", "when"), [(0, "before it answered"), (1, "in the middle of its answer")])
def test_what_is_no_method_is_not_told_to_be_declared(items, when):
    said = replica_lost(SimpleNamespace(service="A", method="/ui", idempotent=False, is_mount=True), 1, items=items)
    assert f"the process of A that answers what lies under /ui ended {when}" in said.message
    assert "idempotent" not in said.message
    assert "items" not in said.message
