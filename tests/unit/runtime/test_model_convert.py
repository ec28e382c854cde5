"""`config.pbtxt` to `model.yaml` and back: nothing is lost, and both mean the same."""

from dataclasses import replace

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from trilith.config import parse_yaml
from trilith.errors import InvalidConfig
from trilith.runtime import check_models
from trilith.runtime.model_convert import convert_config, pbtxt_to_yaml, yaml_to_pbtxt
from trilith.runtime.model_pbtxt import parse_model_pbtxt, says_max_batch_size
from trilith.runtime.model_yaml import load_model_yaml
from trilith.wire.oip_messages import model_config_messages

MESSAGES = model_config_messages()
NAMES = st.text("abcxyz_.0", min_size=1, max_size=6)
COUNTS = st.integers(1, 2**31 - 1)


@st.composite
def policies(draw):
    return MESSAGES.ModelQueuePolicy(
        timeout_action=draw(st.integers(0, 1)),
        default_timeout_microseconds=draw(st.integers(0, 2**40)),
        allow_timeout_override=draw(st.booleans()),
        max_queue_size=draw(st.integers(0, 2**31)),
    )


@st.composite
def configs(draw):
    """A configuration of fields that are honoured, and whether it writes down its `max_batch_size`."""
    config = MESSAGES.ModelConfig(
        name=draw(st.sampled_from(["", "m"])),
        backend=draw(st.sampled_from(["", "identity", "onnxruntime"])),
        platform=draw(st.sampled_from(["", "onnxruntime_onnx"])),
        max_batch_size=draw(st.integers(0, 64)),
        default_model_filename=draw(st.sampled_from(["", "net.onnx", "no", "1e3", "a: b"])),
    )
    for entries in (config.input, config.output):
        for name in draw(st.lists(NAMES, max_size=2, unique=True)):
            entry = entries.add(
                name=name,
                data_type=draw(st.integers(0, 14)),
                dims=draw(st.lists(st.sampled_from([-1, 1, 7, 2**40]), max_size=3)),
            )
            if entries is config.input:
                entry.format = draw(st.integers(0, 2))
                entry.optional = draw(st.booleans())
                entry.allow_ragged_batch = draw(st.booleans())
            else:
                entry.label_filename = draw(st.sampled_from(["", "labels.txt", "null"]))
    for count in draw(st.lists(st.integers(0, 9), max_size=2)):
        config.instance_group.add(
            count=count, name=draw(st.sampled_from(["", "g"])), kind=draw(st.sampled_from([0, 2]))
        )
    if draw(st.booleans()):
        batching = config.dynamic_batching
        batching.SetInParent()
        batching.preferred_batch_size.extend(draw(st.lists(st.integers(1, 64), max_size=2)))
        batching.max_queue_delay_microseconds = draw(st.integers(0, 100) | st.integers(0, 2**44))
        batching.preserve_ordering = draw(st.booleans())
        if draw(st.booleans()):
            batching.default_queue_policy.CopyFrom(draw(policies()))
        if draw(st.booleans()):
            batching.priority_levels = 3
            batching.default_priority_level = 2
            batching.priority_queue_policy[1].CopyFrom(draw(policies()))
    chosen = draw(st.sampled_from(["", "all", "latest", "specific"]))
    if chosen == "all":
        config.version_policy.all.SetInParent()
    elif chosen == "latest":
        config.version_policy.latest.num_versions = draw(st.integers(0, 4))
        config.version_policy.latest.SetInParent()
    elif chosen == "specific":
        config.version_policy.specific.versions.extend(draw(st.lists(COUNTS, min_size=1, max_size=3)))
    if config.backend == "onnxruntime":
        config.optimization.graph.level = draw(st.integers(-1, 2))
        config.parameters["intra_op_thread_count"].string_value = draw(st.sampled_from(["0", "2", "010"]))
    elif config.backend == "identity":
        for key in draw(st.lists(NAMES, max_size=2)):
            config.parameters[key].string_value = draw(st.sampled_from(["", "yes", "12", "é", "{a: 1}", "\n"]))
    if draw(st.booleans()):
        config.response_cache.SetInParent()
    return config, bool(config.max_batch_size) or draw(st.booleans())


def text_of(config, said):
    text = text_format.MessageToString(config)
    return text if config.max_batch_size or not said else f"max_batch_size: 0\n{text}"


def read(text):
    return text_format.Parse(text, MESSAGES.ModelConfig())


def without_groups(spec):
    return replace(spec, instances=replace(spec.instances, groups=()))


@given(configs())
def test_there_and_back_nothing_is_lost(tmp_path_factory, drawn):
    config, said = drawn
    text = text_of(config, said)
    try:
        spec = parse_model_pbtxt(text, "m", source="config.pbtxt")
    except InvalidConfig:
        with pytest.raises(InvalidConfig):
            pbtxt_to_yaml(text, "m", source="config.pbtxt")
        return
    yaml = pbtxt_to_yaml(text, "m", source="config.pbtxt")
    back = yaml_to_pbtxt(parse_yaml(yaml, source="model.yaml") or {}, source="model.yaml")
    for group in config.instance_group if len(config.instance_group) == 1 else ():
        if not group.name and group.count:
            group.kind = MESSAGES.ModelInstanceGroup.KIND_CPU  # which it is here
    assert read(back) == config
    assert says_max_batch_size(back) == said
    path = tmp_path_factory.getbasetemp() / "model.yaml"
    path.write_text(yaml, encoding="utf-8")
    assert without_groups(load_model_yaml(path, "m")) == without_groups(spec)


def test_more_versions_than_model_yaml_takes_are_said_in_tritons_words(tmp_path):
    text = "version_policy { latest { num_versions: 2147483648 } }"
    (tmp_path / "model.yaml").write_text(pbtxt_to_yaml(text, "m", source="config.pbtxt"))
    assert load_model_yaml(tmp_path / "model.yaml", "m").versions.latest == 1 << 31


def test_a_count_of_instances_that_is_left_out_is_one():
    assert "count: 1" in yaml_to_pbtxt({"instances": {}}, source="model.yaml")


def test_instances_on_cpus_have_a_pleasant_form():
    for kind in ("", "kind: KIND_CPU", "kind: KIND_AUTO"):
        yaml = pbtxt_to_yaml(f"instance_group {{ count: 2 {kind} }}", "m", source="config.pbtxt")
        assert yaml == "instances: 2\n"
    assert read(yaml_to_pbtxt({"instances": 2}, source="model.yaml")) == read(
        "instance_group { count: 2 kind: KIND_CPU }"
    )
    assert "KIND_MODEL" in pbtxt_to_yaml("instance_group { count: 2 kind: KIND_MODEL }", "m", source="config.pbtxt")


def test_a_file_by_itself_is_of_the_model_that_it_names(tmp_path):
    file = tmp_path / "config.pbtxt"
    file.write_text('name: "elsewhere" backend: "identity" max_batch_size: 2')
    assert convert_config(file).startswith("name: elsewhere\nbackend: identity\n")
    (found,) = check_models(file)
    assert (found.name, found.ok) == ("elsewhere", True)
    (tmp_path / "1").mkdir()  # now it is a model's folder, whose name counts
    with pytest.raises(InvalidConfig, match="name: must be that of the folder"):
        convert_config(file)
    assert "name: must be that of the folder" in check_models(file)[0].problem
    file.write_text("{")
    with pytest.raises(InvalidConfig):
        convert_config(file)


def test_what_has_a_pleasant_form_gets_it():
    yaml = pbtxt_to_yaml(
        """
        backend: "onnxruntime" max_batch_size: 8 instance_group { count: 2 } version_policy { all { } }
        input { name: "x" data_type: TYPE_STRING dims: [ 3, -1 ] }
        dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 1500 }
        """,
        "m",
        source="config.pbtxt",
    )
    assert parse_yaml(yaml, source="model.yaml") == {
        "backend": "onnxruntime",
        "max_batch_size": 8,
        "inputs": [{"name": "x", "datatype": "BYTES", "dims": [3, -1]}],
        "instances": 2,
        "batching": {"preferred": [4, 8], "max_wait_ms": 1.5},
        "versions": "all",
    }


def test_files_are_converted_where_they_lie(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.pbtxt").write_text('backend: "identity" max_batch_size: 0')
    assert convert_config(folder) == "backend: identity\nmax_batch_size: 0\nbatching: false\n"
    (folder / "config.pbtxt").rename(tmp_path / "config.pbtxt")
    (folder / "model.yaml").write_text(
        "backend: identity\nmax_batch_size: 4\nparameters: {a: true, b: 1}\nversions: [2]"
    )
    config = read(convert_config(folder / "model.yaml"))
    assert config.HasField("dynamic_batching")  # which is what leaving `batching` out means
    assert {key: value.string_value for key, value in config.parameters.items()} == {"a": "true", "b": "1"}


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        ("source: 'pypi:x==1#y'\npure: false", "source, pure: cannot be said in config.pbtxt"),
        ("outputs: [{name: y, reduce: argmax}]", "outputs.y.reduce: cannot be said"),
        ("inputs: [{name: x, dims: []}]", r"inputs.x.dims: \[\]: cannot be said"),
        ("inputs: [{name: x, labels: l}]\ntriton: {}", "inputs.x.labels: cannot be said"),
        ("batching: false", r"batching: false \(as long as max_batch_size is left to the model\): cannot be said"),
        ("batching: false\nmax_batch_size: null", r"batching: false \(as long as"),
        ("instances: {count: 2, share_session: false}", "instances.share_session: cannot be said"),
        ("batching: {max_latency_ms: 3}", "batching.max_latency_ms: cannot be said"),
        ("instances: 2\ntriton: {instance_group: [{count: 1}]}", "triton.instance_group: is said outside"),
        ("triton: {nope: 1}", "triton: .*nope"),
    ],
)
def test_what_the_other_form_cannot_say_is_refused_by_name(tmp_path, yaml, says):
    (tmp_path / "model.yaml").write_text(yaml)
    with pytest.raises(InvalidConfig, match=f"model.yaml: {says}"):
        convert_config(tmp_path)
