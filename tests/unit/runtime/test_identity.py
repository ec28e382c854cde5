"""The identity backend and the small twins."""

import numpy as np
import pytest

from trilith.errors import InvalidConfig
from trilith.runtime import Batch, ModelFile, ModelSpec
from trilith.runtime.backends.identity import IdentityBackend
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import ModelEvent
from trilith.runtime.spec import DeclaredTensor, VersionPolicy
from trilith.testing.clock import FakeClock


def backend(**fields):
    return IdentityBackend(ModelFile(model="m", version=1, path=None, spec=ModelSpec(name="m", **fields)))


def test_outputs_are_the_inputs_in_order():
    tensors = tuple(DeclaredTensor(name=name, dims=(2,)) for name in ("a", "b"))
    identity = backend(inputs=tensors, outputs=(DeclaredTensor(name="p"), DeclaredTensor(name="q")))
    identity.load()
    a, b = np.zeros((1, 2)), np.ones((1, 2))
    assert identity.run(Batch(inputs={"a": a, "b": b}, outputs=("q", "p"), rows=1, requests=[]))[0] is b
    assert [spec.name for spec in backend(inputs=tensors).load().outputs] == ["a_out", "b_out"]


def test_what_it_refuses():
    with pytest.raises(InvalidConfig, match="as many outputs as inputs"):
        backend(outputs=(DeclaredTensor(name="p"), DeclaredTensor(name="q"))).load()
    for delay in ("soon", "-1"):
        with pytest.raises(InvalidConfig, match="execute_delay_ms"):
            backend(parameters={"execute_delay_ms": delay})


def test_a_delay_takes_it_off_the_loop():
    slow = backend(parameters={"execute_delay_ms": "0.01"})
    slow.load()
    assert (slow.inline, backend().inline) == (False, True)
    array = np.zeros((1, 1), np.float32)
    assert slow.run(Batch(inputs={"INPUT0": array}, outputs=("OUTPUT0",), rows=1, requests=[]))[0] is array


def test_version_policies_in_triton_s_words():
    def policy(versions):
        handle = ModelHandle(ModelSpec(name="m", backend="identity", versions=versions), "1", [])
        return handle.config_proto().version_policy

    assert policy(VersionPolicy(latest=0)).WhichOneof("policy_choice") == "all"
    assert policy(VersionPolicy(latest=2)).latest.num_versions == 2
    assert list(policy(VersionPolicy(specific=(1, 3))).specific.versions) == [1, 3]


def test_a_handle_shows_itself():
    handle = ModelHandle(ModelSpec(name="m"), "1", [])
    handle.became(ModelEvent.FAILED, "broken")
    assert repr(handle) == "<ModelHandle m/1 UNAVAILABLE: broken>"


def test_a_fake_clock_moves_when_told():
    clock = FakeClock(5.0)
    clock.advance(0.5)
    assert clock.now() == 5.5
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)
