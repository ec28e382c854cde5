"""What clients send along with a load request."""

import dataclasses
import gc
import json
import weakref

import pytest

from trilith.errors import InvalidConfig, InvalidInput, SetupError
from trilith.runtime.model_fields import HONOURED
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.overrides import Override
from trilith.runtime.replacing import PLACES


def spec_of(folder, **config):
    return Override.read("m", {"config": json.dumps(config)}).spec_of(folder)


def test_nothing_sent_is_nothing():
    assert Override.read("m", {}) is None


def test_files_go_to_a_folder_of_their_own_that_goes_with_them():
    override = Override.read("m", {"config": "{}", "file:1/model.onnx": b"x", "file:2/sub/data.bin": b"y"})
    override.write()
    folder = override.folder
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "1/model.onnx",
        "2/sub/data.bin",
    ]
    assert folder.name == "m"
    override.close()
    assert not folder.exists()


@pytest.mark.parametrize(
    "key",
    [
        *("file:../x", "file:1/../../x", "file:/etc/x", "file:x", "file:", "file:0/x", "file:1", "file:1//x"),
        "file:1" + "/d" * 1500,
        *("file:1/\0", "file:1/a\\b", "file:1/./x", "file:a/x", "other", "file:1/.."),
    ],
)
def test_names_that_are_refused(key):
    with pytest.raises(InvalidInput, match="failed to load 'm'"):
        Override.read("m", {"config": "{}", key: b"x"})


def test_files_need_a_configuration_and_the_right_types():
    with pytest.raises(InvalidInput, match="`config` must be sent too"):
        Override.read("m", {"file:1/model.onnx": b"x"})
    with pytest.raises(InvalidInput, match="must be text"):
        Override.read("m", {"config": b"{}"})
    with pytest.raises(InvalidInput, match="must be bytes"):
        Override.read("m", {"config": "{}", "file:1/x": "x"})


def test_what_is_said_replaces_what_the_file_says(tmp_path):
    (tmp_path / "config.pbtxt").write_text(
        'backend: "onnxruntime" max_batch_size: 8 instance_group { count: 2 } dynamic_batching { }'
    )

    def spec(**config):
        return spec_of(tmp_path, **config)

    assert spec().max_batch_size == 8
    changed = spec(max_batch_size=2, instance_group=[{"count": 3}])
    assert (changed.max_batch_size, changed.instances.count, changed.backend) == (2, 3, "onnxruntime")
    assert spec(maxBatchSize=0).max_batch_size == 0  # the other spelling of protobuf's JSON; and a 0 that is said
    assert spec(versionPolicy={"specific": {"versions": ["1"]}}).versions.specific == (1,)


def test_a_model_yaml_is_what_is_replaced_too(tmp_path):
    (tmp_path / "model.yaml").write_text("backend: identity\nmax_batch_size: 8\ninstances: 3")
    spec = spec_of(tmp_path, max_batch_size=2)
    assert (spec.backend, spec.max_batch_size, spec.instances.count, spec.queue.batching) == ("identity", 2, 3, True)


ALL_KEYS = """
backend: onnxruntime
max_batch_size: 8
timeout_ms: 2000
load_timeout_ms: 5000
pure: false
source: "file:x.onnx"
filename: y.onnx
versions: [1, 2]
instances: {count: 2, share_session: false}
batching: {adaptive: false, preserve_ordering: true}
queue: {max_rows: 64, timeout_ms: 100}
session: {intra_op_threads: 3, inter_op_threads: 2}
parameters: {a: 1}
inputs: [{name: tokens, dims: [-1], datatype: INT64, pad: {axis: 1}}]
outputs: [{name: scores, reduce: argmax}]
"""
SENT_FIELDS = {
    "max_batch_size": (4, "max_batch_size"),
    "input": ([{"name": "tokens", "data_type": "TYPE_INT64", "dims": [3]}], "inputs"),
    "output": ([{"name": "scores", "data_type": "TYPE_FP32", "dims": [3]}], "outputs reductions"),
    "instance_group": ([{"count": 4}], "instances"),
    "dynamic_batching": ({"max_queue_delay_microseconds": 100}, "queue"),
    "version_policy": ({"latest": {"num_versions": 3}}, "versions"),
    "default_model_filename": ("z.onnx", "filename"),
    "parameters": ({"inter_op_thread_count": {"string_value": "7"}}, "parameters session"),
    "optimization": ({"graph": {"level": 1}}, "graph_level session"),
    "backend": ("identity", "backend"),
    "platform": ("onnxruntime_onnx", "platform"),
    "model_warmup": ([{"name": "w", "batch_size": 1}], "warmup"),
    "metric_tags": ({"a": "b"}, "metric_tags"),
    "response_cache": ({"enable": True}, "kept"),
    "runtime": ("model.py", "runtime"),
    "name": ("m", ""),
}


@pytest.mark.parametrize("field", SENT_FIELDS)
def test_a_field_replaces_its_own_key_and_no_key_that_config_pbtxt_has_not(tmp_path, field):
    (tmp_path / "model.yaml").write_text(ALL_KEYS)
    own, (value, places) = load_model_yaml(tmp_path / "model.yaml", "m"), SENT_FIELDS[field]
    spec = spec_of(tmp_path, **{field: value})
    differ = {each.name for each in dataclasses.fields(spec) if getattr(spec, each.name) != getattr(own, each.name)}
    assert differ == set(places.split())
    assert spec.instances.share is False
    assert (spec.queue.timeout_s, spec.queue.max_queue_rows, spec.queue.batching) == (2.0, 64, True)
    assert (spec.session.intra_op_threads, spec.session.inter_op_threads) == (3, 7 if field == "parameters" else 2)


def test_every_field_that_is_honoured_has_its_place():
    assert set(HONOURED) - set(PLACES) == {"model_transaction_policy"}  # present but empty, it says what is so anyway


def test_what_does_not_fit_the_rest_of_a_model_yaml_is_the_clients_mistake(tmp_path):
    (tmp_path / "model.yaml").write_text("max_batch_size: 8\nbatching: {preferred: [8]}\ntimeout_ms: 5")
    with pytest.raises(InvalidConfig, match=r"the parameter `config`: .*preferred"):
        spec_of(tmp_path, max_batch_size=2)


@pytest.mark.parametrize(("file", "text"), [("model.yaml", "nope: 1"), ("config.pbtxt", "nope: 1")])
def test_what_is_wrong_with_the_models_own_file_is_not(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    with pytest.raises(SetupError, match=file) as raised:
        spec_of(tmp_path, max_batch_size=2)
    assert not isinstance(raised.value, InvalidConfig)


def test_without_a_file_the_configuration_stands_alone(tmp_path):
    assert spec_of(tmp_path, backend="identity").max_batch_size is None


@pytest.mark.parametrize("config", ["{", "[]", '{"nope": 1}', '{"max_batch_size": "many"}', "null"])
def test_a_configuration_that_is_none(tmp_path, config):
    with pytest.raises(InvalidConfig, match="the parameter `config`: must be the JSON of a ModelConfig"):
        Override.read("m", {"config": config}).spec_of(tmp_path)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ('{"backend": "a", "backend": "b"}', "duplicate key backend"),
        ('{"instance_group": [{"count": 1, "count": 2}]}', "duplicate key count"),
        ('{"max_batch_size": 1, "maxBatchSize": 2}', "'maxBatchSize' and 'max_batch_size' are one field"),
    ],
)
def test_a_key_that_stands_twice_is_named(tmp_path, config, key):
    with pytest.raises(InvalidConfig, match=key):
        Override.read("m", {"config": config}).spec_of(tmp_path)


class Sent(dict):
    """Files that a client sends; one can see when they are gone."""


def test_what_is_written_does_not_stay_in_memory(tmp_path):
    files = Sent({"1/model.onnx": bytes(1000)})
    gone = weakref.ref(files)
    override = Override("m", "{}", files)
    del files
    override.write(tmp_path)
    gc.collect()
    assert gone() is None
    override.write(tmp_path)  # there is nothing more to write
    assert (override.folder / "1" / "model.onnx").read_bytes() == bytes(1000)
    override.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ('{"max_batchsize": 2}', r"ModelConfig has no field 'max_batchsize'; did you mean 'max_batch_size'\?$"),
        ('{"instance_group": [{"cout": 2}]}', r"ModelInstanceGroup has no field 'cout'; did you mean 'count'\?$"),
        ('{"zzzz": 2}', r"ModelConfig has no field 'zzzz'$"),
        ('{"max_batch_size": "many"}', r"max_batch_size"),
    ],
)
def test_a_field_that_there_is_not_is_told_with_the_nearest(tmp_path, config, problem):
    with pytest.raises(InvalidConfig, match=problem):
        Override.read("m", {"config": config}).spec_of(tmp_path)


def test_a_file_is_told_so_too():
    with pytest.raises(InvalidConfig, match=r"^c.pbtxt: 2:1 : .*no field 'max_batchsize'; did you mean"):
        parse_model_pbtxt('backend: "identity"\nmax_batchsize: 2', "m", source="c.pbtxt")
