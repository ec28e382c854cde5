"""What clients send along with a load request."""

import gc
import json
import weakref

import pytest

from trilith.errors import InvalidConfig, InvalidInput
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.overrides import Override


def config_of(folder, **config):
    return Override.read("m", {"config": json.dumps(config)}).config_of(folder)


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
        return parse_model_pbtxt(config_of(tmp_path, **config), "m", source="test")

    assert spec().max_batch_size == 8
    changed = spec(max_batch_size=2, instance_group=[{"count": 3}])
    assert (changed.max_batch_size, changed.instances.count, changed.backend) == (2, 3, "onnxruntime")
    assert spec(maxBatchSize=0).max_batch_size == 0  # the other spelling of protobuf's JSON; and a 0 that is said
    assert spec(versionPolicy={"specific": {"versions": ["1"]}}).versions.specific == (1,)


def test_a_model_yaml_is_what_is_replaced_too(tmp_path):
    (tmp_path / "model.yaml").write_text("backend: identity\nmax_batch_size: 8\ninstances: 3")
    spec = parse_model_pbtxt(config_of(tmp_path, max_batch_size=2), "m", source="test")
    assert (spec.backend, spec.max_batch_size, spec.instances.count, spec.queue.batching) == ("identity", 2, 3, True)
    (tmp_path / "model.yaml").write_text("source: 'file:x.onnx'")
    with pytest.raises(InvalidConfig, match=r"model.yaml: source: cannot be said in config.pbtxt"):
        config_of(tmp_path, max_batch_size=2)


def test_without_a_file_the_configuration_stands_alone(tmp_path):
    assert parse_model_pbtxt(config_of(tmp_path, backend="identity"), "m", source="test").max_batch_size is None


@pytest.mark.parametrize("config", ["{", "[]", '{"nope": 1}', '{"max_batch_size": "many"}', "null"])
def test_a_configuration_that_is_none(tmp_path, config):
    with pytest.raises(InvalidConfig, match="the parameter `config`: must be the JSON of a ModelConfig"):
        Override.read("m", {"config": config}).config_of(tmp_path)


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
        Override.read("m", {"config": config}).config_of(tmp_path)


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
