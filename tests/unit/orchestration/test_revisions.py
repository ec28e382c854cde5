"""Changes of an application, told in any order that processes can tell them in."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trilith.orchestration.reconcile import DesiredService
from trilith.orchestration.revisions import Revision, Revisions, missing


def revision(number: int, replicas: int = 1) -> Revision[str]:
    desired = (DesiredService(service="echo", replicas=replicas, revision=number),)
    return Revision(number=number, desired=desired, content=f"code {number}")


def running(counts: dict[int, int]):
    return lambda service, number: counts.get(number, 0)


def started() -> Revisions[str]:
    """The first revision is up and announced."""
    revisions: Revisions[str] = Revisions()
    assert revisions.described(revision(revisions.begin()))
    revisions.gateway_loaded(1)
    assert revisions.announce(running({1: 1}))
    return revisions


def test_first_revision_has_the_calls_before_its_replicas_run() -> None:
    revisions: Revisions[str] = Revisions()
    assert revisions.switched
    assert revisions.described(revision(revisions.begin()))
    assert revisions.switched
    assert revisions.switch(complete=True) is None
    assert not revisions.announce(running({1: 1})), "its models are not loaded"
    revisions.gateway_loaded(1)
    assert not revisions.announce(running({}))
    assert revisions.announce(running({1: 1}))
    assert not revisions.announce(running({1: 1})), "once"


def test_calls_switch_when_models_and_replicas_are_there() -> None:
    revisions = started()
    second = revision(revisions.begin())
    assert revisions.described(second)
    assert not revisions.switched
    assert revisions.switch(complete=True) is None, "its models are not loaded"
    revisions.gateway_loaded(2)
    assert revisions.switch(complete=False) is None
    assert revisions.switch(complete=True) is second
    assert revisions.switched
    assert revisions.switch(complete=True) is None


def test_a_new_gateway_has_to_load_first() -> None:
    revisions = started()
    revisions.described(revision(revisions.begin()))
    revisions.gateway_loaded(2)
    revisions.gateway_started()
    assert not revisions.gateway_served
    assert revisions.switch(complete=True) is None


def test_change_that_cannot_start_is_dropped() -> None:
    revisions = started()
    first = revisions.serving
    revisions.described(revision(revisions.begin()))
    assert revisions.cannot_start()
    assert revisions.wanted is first
    assert revisions.switched
    assert revisions.announced, "nothing new to say"
    assert not revisions.cannot_start(), "nothing else to go back to"


def test_first_revision_cannot_be_dropped() -> None:
    revisions: Revisions[str] = Revisions()
    assert not revisions.cannot_start()
    revisions.described(revision(revisions.begin()))
    assert not revisions.cannot_start()


def test_older_change_that_describes_itself_late_is_not_wanted() -> None:
    revisions = started()
    slow, quick = revisions.begin(), revisions.begin()
    assert revisions.described(revision(quick))
    assert not revisions.described(revision(slow))
    assert revisions.wanted is not None
    assert revisions.wanted.number == quick


def test_repository_without_an_application_is_up_when_its_models_are() -> None:
    revisions: Revisions[str] = Revisions()
    assert not revisions.announce(running({}))
    revisions.gateway_loaded(0)
    assert revisions.announce(running({}))


def test_models_alone_are_not_an_application() -> None:
    revisions: Revisions[str] = Revisions()
    revisions.begin()
    revisions.gateway_loaded(0)
    assert not revisions.announce(running({}))


def test_missing_names_what_is_short() -> None:
    entry = revision(1, replicas=2).desired[0]
    assert missing([entry], running({1: 1})) == [entry]
    assert missing([entry], running({1: 2})) == []


@dataclass
class _World:
    begun: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)


class Changes(RuleBasedStateMachine):
    """Whatever happens in whatever order: what serves was whole when it got the calls, and never goes back in time."""

    @initialize()
    def start(self) -> None:
        self.revisions: Revisions[str] = Revisions()
        self.world = _World()
        self.loaded = -1
        self.served: list[int] = []

    @rule()
    def begin(self) -> None:
        number = self.revisions.begin()
        assert number not in self.world.begun
        self.world.begun.append(number)

    @precondition(lambda self: self.world.begun)
    @rule(data=st.data())
    def describe(self, data: st.DataObject) -> None:
        self.revisions.described(revision(data.draw(st.sampled_from(self.world.begun))))

    @rule(number=st.integers(1, 4), count=st.integers(0, 1))
    def replicas(self, number: int, count: int) -> None:
        self.world.counts[number] = count

    @rule(number=st.integers(0, 4))
    def load(self, number: int) -> None:
        self.loaded = max(self.loaded, number)
        self.revisions.gateway_loaded(number)

    @rule()
    def gateway_dies(self) -> None:
        self.loaded = -1
        self.revisions.gateway_started()

    @rule()
    def fail(self) -> None:
        before = self.revisions.serving
        self.revisions.cannot_start()
        assert self.revisions.serving is before

    @rule()
    def look(self) -> None:
        complete = not missing(self.revisions.desired, running(self.world.counts))
        switched = self.revisions.switch(complete=complete)
        if switched is not None:
            assert self.world.counts.get(switched.number, 0) >= 1
            assert self.loaded >= switched.number
            assert switched is self.revisions.serving

    @invariant()
    def calls_never_go_back(self) -> None:
        if not hasattr(self, "revisions") or self.revisions.serving is None:
            return
        self.served.append(self.revisions.serving.number)
        assert self.served == sorted(self.served)
        assert self.revisions.wanted is not None
        assert self.revisions.wanted.number >= self.revisions.serving.number


Changes.TestCase.settings = settings(stateful_step_count=40)
TestChanges = Changes.TestCase
