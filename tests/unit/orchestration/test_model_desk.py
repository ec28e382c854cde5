"""Model calls of replicas while the models of some revision are being loaded."""

import dataclasses

import pytest

from trilith.core.model import ModelSignature
from trilith.errors import Cancelled, UnknownModel
from trilith.orchestration.engine.model_calls import ModelDesk
from trilith.orchestration.engine.model_wire import SIGNATURE
from trilith.wire.calls import CallMeta


class Runtime:
    """Knows the models that the test says."""

    def __init__(self):
        self.known = set()

    def model(self, name, version=""):
        if name not in self.known:
            raise UnknownModel(f"there is no model {name}")
        return ModelSignature(inputs=(), outputs=(), metadata={})


@dataclasses.dataclass(eq=False)
class Incoming:
    answers: list = dataclasses.field(default_factory=list)
    cancelled: bool = False
    deadline: float | None = None
    on_cancel: object = None

    def result(self, meta, buffers=()):
        self.answers.append("ok")

    def fail(self, code, message):
        self.answers.append(code)

    def fail_error(self, error):
        self.answers.append(error.code)


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
def desk(runtime):
    return ModelDesk(runtime)


def ask(desk, name, revision):
    incoming = Incoming()
    desk.take(incoming, CallMeta("", SIGNATURE, name, "id"), revision)
    return incoming


def test_a_call_waits_for_the_models_of_its_own_revision(desk, runtime):
    early = ask(desk, "a", 1)
    assert early.answers == []
    runtime.known.add("a")
    desk.prepared(1)
    assert early.answers == ["ok"]
    assert ask(desk, "a", 1).answers == ["ok"]
    change = ask(desk, "b", 2)
    assert change.answers == [], "the models of revision 2 are still loading"
    assert ask(desk, "a", 1).answers == ["ok"], "revision 1 does not notice"
    runtime.known.add("b")
    desk.prepared(2)
    assert change.answers == ["ok"]


def test_a_model_that_could_not_be_loaded_is_said_to_be_unknown(desk):
    early = ask(desk, "typo", 1)
    desk.prepared(1)
    assert early.answers == ask(desk, "typo", 1).answers == [UnknownModel.code]


def test_a_call_that_is_taken_back_while_it_waits_is_answered_once(desk, runtime):
    early, other = ask(desk, "a", 1), ask(desk, "a", 1)
    early.on_cancel()
    assert early.answers == [Cancelled.code]
    runtime.known.add("a")
    desk.prepared(1)
    assert early.answers == [Cancelled.code]
    assert other.answers == ["ok"]
    assert other.on_cancel is None
