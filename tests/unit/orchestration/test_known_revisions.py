"""Calls of replicas meet their own revision while it is known, and wait for one that is on its way."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from trilith.orchestration.known_revisions import KnownRevisions


@dataclass(frozen=True)
class App:
    revision: int


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("call"), st.integers(1, 6)),
            st.tuples(st.just("publish"), st.sets(st.integers(1, 6))),
            st.tuples(st.just("prepare"), st.integers(1, 2)),
        ),
        max_size=40,
    )
)
def test_a_call_is_early_until_its_revision_is_known_and_none_meets_a_stranger(steps):
    known: KnownRevisions[App] = KnownRevisions()
    newest = 0
    for what, value in steps:
        if what == "call":
            served = known.served.revision if known.served is not None else 0
            if known.is_early(value):
                assert value > served
                assert value > newest or value not in known.known
            else:
                met = known.known.get(value, known.served)
                assert met is not None
                assert met.revision == value or met is known.served
        elif what == "prepare":
            newest += value
            known.prepare(App(newest))
            assert not known.is_early(newest)
            assert known.known[newest] == App(newest)
        elif known.prepared is not None:
            before = [known.known[number] for number in value if number in known.known]
            known.publish(known.prepared, value)
            assert known.served == App(newest)
            assert all(known.known[app.revision] is app for app in before), "its replicas are still there"
            assert set(known.needed(value)) == {App(newest), *before}


def test_revisions_without_replicas_are_forgotten():
    known: KnownRevisions[App] = KnownRevisions()
    for number in (1, 2, 3):
        known.prepare(App(number))
        known.publish(App(number), {2})
    assert known.known == {2: App(2), 3: App(3)}
    assert known.needed([1, 2]) == [App(3), App(3), App(2)]
