import asyncio
from dataclasses import replace

import pytest

from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime import Runtime, RuntimeConfig, check_model_settings
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.repository import read_spec
from trilith.runtime.spec import InstanceConfig, ModelSpec


def test_a_model_without_a_configuration(tmp_path):
    spec = read_spec("m", tmp_path, settings={"instances": 3, "session": {"intra_op_threads": 2}})
    assert (spec.instances, spec.session.intra_op_threads) == (InstanceConfig(count=3), 2)


def test_what_is_not_set_stays_as_model_yaml_has_it(tmp_path):
    file = tmp_path / "model.yaml"
    file.write_text("instances: {count: 2, share_session: false}\ntimeout_ms: 5\nsession: {spinning: true}\n")
    own = load_model_yaml(file, "m")
    spec = read_spec("m", tmp_path, settings={"instances": {"count": 4}, "session": {"inter_op_threads": 3}})
    assert spec == replace(
        own,
        instances=InstanceConfig(count=4, share=False),
        session=replace(own.session, inter_op_threads=3),
    )


def test_what_is_not_set_stays_as_config_pbtxt_has_it(tmp_path):
    (tmp_path / "config.pbtxt").write_text(
        'backend: "identity"\nmax_batch_size: 8\n'
        'input [{name: "x" data_type: TYPE_FP32 dims: [2] reshape {shape: [1, 2]}}]\n'
        'output [{name: "y" data_type: TYPE_FP32 dims: [2]}]\nmetric_tags { key: "a" value: "b" }\n'
    )
    own = read_spec("m", tmp_path)
    spec = read_spec("m", tmp_path, settings={"max_batch_size": 16, "batching": {"max_wait_ms": 3}})
    assert spec == replace(own, max_batch_size=16, queue=replace(own.queue, batching=True, max_wait_s=0.003))
    with pytest.raises(InvalidConfig, match=r"config.pbtxt with models.m as set: session: cannot be said"):
        read_spec("m", tmp_path, settings={"session": {"spinning": True}})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"instance": 2}, "models.m as set: instance: unknown key; did you mean 'instances'?"),
        ({"instances": "two"}, "models.m as set: instances: must be an integer from 1 to 256, got 'two'"),
        ({"session": {"spin": True}}, "models.m as set: session.spin: unknown key"),
        ({"source": "file:x"}, "models.m as set: source: says what the model is"),
    ],
)
def test_what_cannot_be_set(values, said):
    with pytest.raises(InvalidConfig) as raised:
        check_model_settings({"m": values})
    assert said in raised.value.message


def test_a_model_that_is_not_there_is_named(tmp_path):
    (tmp_path / "here").mkdir()

    async def enter():
        async with Runtime(tmp_path, config=RuntimeConfig(model_settings={"there": {"instances": 2}})):
            raise AssertionError("a setting of no model was taken")

    with pytest.raises(UnknownReference, match=r"models.there as set: there is no such model in the repositories"):
        asyncio.run(enter())


def test_nothing_set_is_nothing_changed(tmp_path):
    assert read_spec("m", tmp_path, settings={}) == ModelSpec(name="m")
