"""Parameters and fields that change nothing here: accepted, told to clients, and named by `check`."""

import re
from pathlib import Path

import pytest
from google.protobuf import text_format

import trilith.runtime.backends
from trilith.config import parse_yaml
from trilith.runtime import ModelFile, check_models
from trilith.runtime.backends import builtin_backends
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.parameters import KNOWN, unknown_parameters
from trilith.runtime.idle_fields import IDLE
from trilith.runtime.model_convert import pbtxt_to_yaml, yaml_to_pbtxt
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.onnx_parameters import onnx_session
from trilith.wire.oip_messages import model_config_messages

ASKED = re.compile(
    r'options\.(?:text|switch|number|count|names)\(\s*"(\w+)"|_number\(file, "(\w+)"|parameters\.get\("(\w+)"'
)
TENSORS = """
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""
IDLE_CONFIG = """
max_batch_size: 8
cc_model_filenames { key: "8.0" value: "model80.onnx" }
metric_tags { key: "team" value: "ocr" }
response_cache { enable: true }
optimization {
  priority: PRIORITY_MAX
  cuda { graphs: true }
  input_pinned_memory { enable: true }
  output_pinned_memory { enable: false }
  gather_kernel_buffer_threshold: 4096
  eager_batching: true
  execution_accelerators {
    gpu_execution_accelerator { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } }
    cpu_execution_accelerator { name: "openvino" }
  }
}
instance_group [
  { count: 2 kind: KIND_CPU rate_limiter { resources { name: "r" count: 1 } priority: 2 } host_policy: "numa" },
  { kind: KIND_MODEL profile: "p" secondary_devices { kind: KIND_NVDLA } }
]
"""


def test_every_key_that_a_backend_asks_for_is_listed():
    folder = Path(trilith.runtime.backends.__file__).parent
    asked = {
        name
        for path in folder.rglob("*.py")
        for found in ASKED.findall(path.read_text(encoding="utf-8"))
        for name in found
        if name
    }
    assert len(asked) > 15
    assert asked <= {key for keys in KNOWN.values() for key in keys}
    assert KNOWN.keys() == builtin_backends().keys()


def test_what_looks_misspelt_is_told_from_what_is_meant_for_clients():
    keys = {"owner": "me", "intra_op_thread_cont": "2", "SESSION.x": "1", "session.disable_prepacking": "1"}
    assert dict(unknown_parameters("onnxruntime", keys)) == {
        "owner": "",
        "intra_op_thread_cont": "intra_op_thread_count",
        "SESSION.x": "",
    }
    assert list(unknown_parameters("sklearn", {"Allow_Pickle": "1"})) == [("Allow_Pickle", "allow_pickle")]
    assert list(unknown_parameters("somebody's own", keys)) == []
    assert list(unknown_parameters("openvino", {"PERFORMANCE_HINT": "LATENCY", "owner": "me"})) == [("owner", "")]


@pytest.mark.parametrize(
    ("value", "shrinks"), [("cpu:0", True), ("cpu:0;gpu:0", True), ("gpu:0;cpu:0", True), ("gpu:0", False), ("", False)]
)
def test_the_arena_shrinks_where_cpus_are_named(value, shrinks):
    assert onnx_session({"memory.enable_memory_arena_shrinkage": value}, 0).shrink_arena is shrinks


@pytest.mark.parametrize("backend", sorted(builtin_backends()))
def test_what_has_no_effect_is_accepted_told_and_converted(tmp_path, backend):
    own = 'parameters { key: "owner" value { string_value: "me" } }'
    text = f'backend: "{backend}" {IDLE_CONFIG} {TENSORS} {own}'
    spec = parse_model_pbtxt(text, "m", source="config.pbtxt")
    assert spec.parameters == {"owner": "me"}
    yaml = pbtxt_to_yaml(text, "m", source="config.pbtxt")
    back = yaml_to_pbtxt(parse_yaml(yaml, source="model.yaml"), source="model.yaml")
    whole = model_config_messages().ModelConfig
    assert text_format.Parse(back, whole()) == text_format.Parse(text, whole())
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    (folder / (builtin_backends()[backend].filename or "nothing")).write_text("class TritonPythonModel: ...")
    (tmp_path / "m" / "config.pbtxt").write_text(text)
    (found,) = check_models(tmp_path)
    assert found.ok, found.problem
    told = " ".join(found.without_effect)
    assert [field for field in IDLE if f"{field} has no effect" not in told] == ["model_metrics"]
    assert (f"parameters.owner has no effect: the backend {backend}" in told) is (backend != "python")
    assert "OpenVINO" in told


def test_a_misspelt_parameter_is_mentioned(tmp_path):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").touch()
    (tmp_path / "m" / "config.pbtxt").write_text('parameters { key: "enable_mem_aren" value { string_value: "0" } }')
    (found,) = check_models(tmp_path)
    assert found.ok
    assert "did you mean 'enable_mem_arena'?" in found.advice[0]


SAMPLE = """
model_warmup { name: "w" inputs { key: "%s" value { data_type: TYPE_%s dims: [ 4 ] %s } } }
"""


@pytest.mark.parametrize(
    ("backend", "config", "filename", "says"),
    [
        (
            "onnxruntime",
            "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 16 ] }",
            "",
            "config.pbtxt: dynamic_batching.preferred_batch_size: each must be between 1 and max_batch_size (8), got",
        ),
        (
            "python",
            'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "env.tar.gz" } }',
            "",
            "parameters.EXECUTION_ENV_PATH: there is no env.tar.gz; expected an environment that conda-pack",
        ),
        ("sklearn", "", "model.pkl", "reading a pickle runs whatever code"),
        (
            "fil",
            'parameters { key: "model_type" value { string_value: "treelite_checkpoint" } }',
            "",
            "parameters.model_type: must be one of xgboost",
        ),
        ("onnxruntime", SAMPLE % ("z", "FP32", "zero_data: true"), "", "sample 'w': lacks the input 'x'"),
        ("onnxruntime", SAMPLE % ("x", "INT8", "zero_data: true"), "", "sample 'w': input 'x' must be FP32"),
        ("onnxruntime", SAMPLE % ("x", "FP32", 'input_data_file: "no"'), "", "warmup/no: there is no such file"),
    ],
)
def test_what_can_be_known_without_loading_is_said(tmp_path, backend, config, filename, says):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / (filename or builtin_backends()[backend].filename)).touch()
    (tmp_path / "m" / "config.pbtxt").write_text(f'backend: "{backend}" {config} {TENSORS}')
    (found,) = check_models(tmp_path)
    assert not found.ok
    assert says in found.problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "max_batch_size: 8\nbatching: {preferred: [16]}",
            "model.yaml: batching.preferred: each must be",
        ),
        ("max_batch_size: 8\nqueue: {max_rows: 4}", "model.yaml: queue.max_rows: must be at least"),
        ("priority: {levels: 2, default: 3}", "model.yaml: priority.default: must be between"),
    ],
)
def test_the_same_of_a_yaml(tmp_path, text, says):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").touch()
    (tmp_path / "m" / "model.yaml").write_text(text)
    (found,) = check_models(tmp_path)
    assert says in found.problem


def test_parameters_that_a_yaml_says_otherwise_are_named(tmp_path, caplog):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").touch()
    for value in ("3", "many"):
        (tmp_path / "m" / "model.yaml").write_text(f"parameters: {{intra_op_thread_count: {value}, owner: me}}")
        (found,) = check_models(tmp_path)
        assert found.ok
        said = "parameters.intra_op_thread_count has no effect in model.yaml: say it by a key of `session`"
        assert said in found.without_effect
    (tmp_path / "m" / "model.yaml").unlink()
    config = 'parameters { key: "intra_op_thread_count" value { string_value: "3" } }'
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    assert check_models(tmp_path)[0].without_effect == []
    options = Options(ModelFile(model="m", version=1, path=None, spec=check_spec("enable_mem_aren")))
    options.finish()
    assert "parameters.enable_mem_aren: means nothing to the onnxruntime backend, which knows 'enable_mem_arena'" in (
        caplog.text
    )


def check_spec(key):
    return parse_model_pbtxt(
        f'backend: "onnxruntime" parameters {{ key: "{key}" value {{ string_value: "0" }} }}', "m", source="x"
    )
