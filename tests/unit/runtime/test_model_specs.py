"""`model.yaml` and `config.pbtxt` become the same specification, or say which field is wrong."""

import subprocess
import sys
from dataclasses import replace

import pytest

from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig
from trilith.runtime.joining import Padding, Unpadding
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.schedule import QueuePolicy, TimeoutAction
from trilith.runtime.spec import (
    DeclaredTensor,
    InstanceConfig,
    InstanceGroup,
    ModelSource,
    ModelSpec,
    QueueConfig,
    SessionConfig,
    VersionPolicy,
)


def from_yaml(tmp_path, text):
    path = tmp_path / "model.yaml"
    path.write_text(text)
    return load_model_yaml(path, "m")


def from_pbtxt(text):
    return parse_model_pbtxt(text, "m", source="m/config.pbtxt")


PBTXT = """
name: "m"  backend: "onnxruntime"  max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]
output [ { name: "y" data_type: TYPE_STRING dims: [ 1 ] label_filename: "labels.txt" } ]
instance_group [ { count: 2 kind: KIND_CPU }, { } ]
version_policy: { specific: { versions: [ 1, 3 ] } }
dynamic_batching {
  preferred_batch_size: [ 2, 4 ]  max_queue_delay_microseconds: 2000  priority_levels: 3  default_priority_level: 2
  preserve_ordering: true
  default_queue_policy {
    timeout_action: DELAY max_queue_size: 64 default_timeout_microseconds: 500000 allow_timeout_override: true
  }
  priority_queue_policy { key: 1 value { default_timeout_microseconds: 20000 max_queue_size: 8 } }
}
default_model_filename: "net.onnx"
parameters { key: "intra_op_thread_count" value { string_value: "2" } }
parameters { key: "session.disable_prepacking" value { string_value: "1" } }
optimization { graph { level: -1 } }
response_cache { enable: false }
"""
YAML = """
backend: onnxruntime
max_batch_size: 8
inputs: [{name: x, datatype: FP32, dims: [3, -1]}]
outputs: [{name: y, datatype: BYTES, dims: [1], labels: labels.txt}]
instances: 3
versions: [1, 3]
batching: {preferred: [2, 4], max_wait_ms: 2, preserve_ordering: true}
queue: {timeout_ms: 500, timeout_action: delay, max_size: 64}
priority: {levels: 3, default: 2, policies: {1: {timeout_ms: 20, allow_timeout_override: false, max_size: 8}}}
filename: net.onnx
session: {intra_op_threads: 2, optimization: basic, entries: {session.disable_prepacking: "1"}}
parameters: {intra_op_thread_count: 2, session.disable_prepacking: 1}
"""
SPEC = ModelSpec(
    name="m",
    backend="onnxruntime",
    max_batch_size=8,
    inputs=(DeclaredTensor(name="x", datatype=DataType.FP32, dims=(3, -1)),),
    outputs=(DeclaredTensor(name="y", datatype=DataType.BYTES, dims=(1,), label_filename="labels.txt"),),
    instances=InstanceConfig(count=3),
    queue=QueueConfig(
        preferred_rows=(2, 4),
        max_wait_s=0.002,
        max_queue_size=64,
        preserve_ordering=True,
        policy=QueuePolicy(timeout_s=0.5, timeout_action=TimeoutAction.DELAY),
        level_policies={1: QueuePolicy(timeout_s=0.02, allow_timeout_override=False, max_queue_size=8)},
        says_levels=True,
        says_policy=True,
        priority_levels=3,
        default_priority=2,
    ),
    versions=VersionPolicy(specific=(1, 3)),
    filename="net.onnx",
    session=SessionConfig(intra_op_threads=2, optimization="basic", entries={"session.disable_prepacking": "1"}),
    parameters={"intra_op_thread_count": "2", "session.disable_prepacking": "1"},
)


def test_both_forms_say_the_same(tmp_path):
    assert from_yaml(tmp_path, YAML) == SPEC
    groups = (InstanceGroup(count=2), InstanceGroup(count=1))
    # With priorities, a size that Triton's default policy says is that of each of them.
    queue = replace(SPEC.queue, max_queue_size=0, policy=replace(SPEC.queue.policy, max_queue_size=64))
    assert from_pbtxt(PBTXT) == replace(
        SPEC,
        queue=queue,
        instances=InstanceConfig(count=3, groups=groups),
        graph_level=-1,
        kept=from_pbtxt("response_cache { }").kept,
    )


def test_joining_in_both_forms(tmp_path):
    yaml = """
    inputs:
      - {name: x, dims: [-1], ragged: true}
      - {name: o, optional: true}
      - {name: p, pad: {axis: 0, value: 1, buckets: [4, 8], mask: m}}
    outputs: [{name: z, unpad: {axis: 0, input: p, divide_by: 2}}]
    batch_inputs: [{kind: element_count, targets: [n], source: x, datatype: INT32}]
    batch_outputs: [{targets: [y], source: x}]
    """
    pbtxt = """
    input [ { name: "x" dims: -1 allow_ragged_batch: true }, { name: "o" optional: true } ]
    batch_input { kind: BATCH_ELEMENT_COUNT target_name: "n" source_input: "x" data_type: TYPE_INT32 }
    batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "y" source_input: "x" }
    """
    found = from_yaml(tmp_path, yaml)
    assert replace(found, inputs=found.inputs[:2], outputs=()) == from_pbtxt(pbtxt)
    assert found.inputs[0].ragged
    assert found.inputs[1].optional
    assert found.inputs[2].pad == Padding(axis=0, value=1, buckets=(4, 8), mask="m")
    assert found.outputs[0].unpad == Unpadding(axis=0, input="p", divide_by=2)


def test_the_short_yaml_forms(tmp_path):
    assert from_yaml(tmp_path, "") == ModelSpec(name="m")
    assert from_yaml(tmp_path, "versions: all").versions == VersionPolicy(latest=0)
    assert from_yaml(tmp_path, "versions: {latest: 2}").versions == VersionPolicy(latest=2)
    assert from_yaml(tmp_path, "instances: {count: 2, share_session: false}").instances.share is False
    assert from_yaml(tmp_path, "batching: false").queue.batching is False
    source = from_yaml(tmp_path, f"source: 'pypi:a==1#b.onnx'\nsha256: {'a' * 64}\nversion: 3").source
    assert source == ModelSource(reference="pypi:a==1#b.onnx", sha256="a" * 64, version=3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("batchng: {}", r"model.yaml: batchng: unknown key; did you mean 'batching'\?"),
        ("versions: []", r"versions"),
        ("inputs: [{name: ''}]", r"inputs\[0\]\.name: "),
        ("inputs: [{name: x, labels: l.txt}]", r"inputs: x: labels: only outputs have labels"),
        (
            "outputs: [{name: y, dims: [2, 0]}]",
            r"outputs: y: dims: each must be >= 1, or -1 .* got \[2, 0\]",
        ),
        (
            "batch_inputs: [{kind: item_shape, targets: [t], source: x, datatype: BYTES}]",
            r"batch_inputs\[0\]\.datatype: ",
        ),
        ("batching: {max_wait: 3}", r"batching\.max_wait: unknown key; did you mean 'max_wait_ms'"),
        ("max_batch_size: -1", r"max_batch_size: must be an integer from 0 to 2147483647, got -1"),
        ("instances: 0", r"instances: must be an integer from 1 to 256, got 0"),
        ("inputs: [{name: x, datatype: FP31}]", r"inputs\[0\]\.datatype: Invalid enum value 'FP31'"),
        ("inputs: [{dims: [1]}]", r"inputs\[0\]: Object missing required field `name`"),
        ("versions: newest", r"versions: "),
        ("name: other", r"name: must be that of the folder"),
        ("sha256: abc", r"sha256: Expected `str` matching regex"),
        (f"sha256: {'a' * 64}", r"sha256: .*no `source`"),
        ("session: {optimization: most}", r"session\.optimization: Invalid enum value"),
        ("timeout_ms: 0", r"timeout_ms: must be a number above 0 and up to 31536000000, got 0"),
        ("batching: {max_size: 3}", r"batching\.max_size: unknown key"),
        ("priority: {levels: 2, default: 3}", r"model.yaml: priority.default: must be between 1"),
        ("priority: {policies: {10: {}}}", r"priority.policies: each is for a level from 1 .*\(9\), got 10"),
        ("queue: {timeout_action: drop}", r"queue\.timeout_action: Invalid enum value"),
        ("batching: {max_queue_size: 3}", r"batching\.max_queue_size: unknown key"),
        ("instances: 257", r"model.yaml: instances: must be an integer from 1 to 256, got 257"),
    ],
)
def test_a_wrong_yaml_key_is_named(tmp_path, text, says):
    with pytest.raises(InvalidConfig, match=says):
        from_yaml(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_batch_sise: 3", r"m/config.pbtxt: 1:1 : .*max_batch_sise"),
        ('name: "other"', r"name: must be that of the folder"),
        ("max_batch_size: -1", r"max_batch_size: must be an integer from 0 to 2147483647, got -1"),
        ('input { name: "x" dims: 0 }', r"input\[0\]\.dims: "),
        ("input { dims: 1 }", r"input\[0\]\.name: is missing"),
        ('input { name: "x" reshape { shape: 1 } }', r"input\[0\]\.reshape: needs dims"),
        (
            'input { name: "x" dims: 4 reshape { shape: [2, 3] } }',
            r"reshape: 'x' has different size for dims \[4\] and",
        ),
        (
            'output { name: "y" dims: [-1, 4] reshape { shape: 4 } }',
            r"output\[0\]\.reshape: 'y' has a different number of",
        ),
        ('batch_input { source_input: "x" }', r"batch_input\[0\]\.target_name: at least one"),
        ('batch_input { target_name: "t" }', r"batch_input\[0\]\.source_input: must be one input, got 0"),
        ('batch_output { target_name: "t" source_input: ["x", "y"] }', r"batch_output\[0\]\.source_input: .* got 2"),
        (
            'batch_input { target_name: "t" source_input: "x" data_type: TYPE_INT8 }',
            r"batch_input\[0\]\.data_type: must be TYPE_FP32 or TYPE_INT32, got TYPE_INT8",
        ),
        ("instance_group { gpus: [-1] }", r"instance_group\.gpus: must be an integer from 0"),
        ("instance_group { passive: true }", r"instance_group\.passive: this field"),
        ("sequence_batching { }", r"sequence_batching: sequences are not served yet"),
        ("ensemble_scheduling { }", r"ensemble_scheduling: ensembles are not served yet"),
        ('model_operations { op_library_filename: "w" }', r"model_operations: this field"),
        (
            "model_transaction_policy { decoupled: true }",
            r"model_transaction_policy\.decoupled: decoupled models are not served yet",
        ),
        (
            "dynamic_batching { priority_queue_policy { key: 1 value { } } }",
            r"priority_queue_policy: means nothing without priority_levels",
        ),
        (
            """dynamic_batching { priority_levels: 2 default_priority_level: 1
            priority_queue_policy { key: 3 value { } } }""",
            r"dynamic_batching.priority_queue_policy: each is for a level from 1 to the number of levels \(2\), got 3",
        ),
        (
            "dynamic_batching { default_priority_level: 2 }",
            r"default_priority_level: means nothing without",
        ),
        (
            'backend: "onnxruntime" optimization { graph { level: 3 } }',
            r"graph\.level: must be an integer from -1 to 2",
        ),
        (
            'backend: "onnxruntime" parameters { key: "enable_mem_arena" value { string_value: "2" } }',
            r"parameters\.enable_mem_arena: must be 0 or 1",
        ),
        ('metric_tags { key: "reason" value: "x" }', r"metric_tags: must be names of labels .*, got 'reason'"),
        ('metric_tags { key: "a b" value: "x" }', r"metric_tags: must be names of labels .*, got 'a b'"),
        ("version_policy { specific { } }", r"version_policy\.specific\.versions: at least one"),
        (
            "max_batch_size: 8 dynamic_batching { preferred_batch_size: 16 }",
            r"dynamic_batching\.preferred_batch_size: each must be between 1 and max_batch_size \(8\), got 16",
        ),
        (
            "ensemble_scheduling { } model_operations { } instance_group { count: 999 } input { dims: 0 }",
            r"m/config.pbtxt: instance_group.count: .*; ensemble_scheduling: .*; model_operations: .*; input\[0\].name",
        ),
        (
            'backend: "onnxruntime" parameters { key: "intra_op_thread_count" value { string_value: "x" } }',
            r"parameters\.intra_op_thread_count: must be an integer",
        ),
    ],
)
def test_a_pbtxt_field_is_honoured_or_refused_by_name(text, says):
    with pytest.raises(InvalidConfig, match=says):
        from_pbtxt(text)


def test_pbtxt_means_what_it_means_in_triton():
    assert from_pbtxt("max_batch_size: 0").max_batch_size == 0
    assert from_pbtxt("").max_batch_size is None
    assert from_pbtxt('# max_batch_size: 0\ninput { name: "max_batch_size: 0" }').max_batch_size is None
    assert from_pbtxt("max_batch_size: 4").queue.batching is False
    assert from_pbtxt("max_batch_size: 4 dynamic_batching { }").queue.batching is True
    bounded = from_pbtxt("dynamic_batching { default_queue_policy { max_queue_size: 4 } }").queue
    assert (bounded.max_queue_size, bounded.policy.max_queue_size) == (4, 0)
    assert from_pbtxt('platform: "onnxruntime_onnx"').backend == "onnxruntime"
    assert from_pbtxt("version_policy { all { } }").versions == VersionPolicy(latest=0)
    for level, words in ((-1, "basic"), (0, "all"), (1, "extended"), (2, "none")):
        text = f'backend: "onnxruntime" optimization {{ graph {{ level: {level} }} }}'
        assert from_pbtxt(text).session.optimization == words


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("", True),
        ("default_queue_policy { }", False),
        ("default_queue_policy { max_queue_size: 4 }", False),
        ("default_queue_policy { allow_timeout_override: true }", True),
    ],
)
def test_a_written_queue_policy_says_whether_requests_bring_their_own_timeout(policy, allowed):
    assert from_pbtxt(f"dynamic_batching {{ {policy} }}").queue.allow_timeout_override is allowed


def test_version_policies():
    assert VersionPolicy().choose([3, 1, 12]) == [12]
    assert VersionPolicy(latest=2).choose([3, 1, 12]) == [3, 12]
    assert VersionPolicy(latest=0).choose([3, 1]) == [1, 3]
    assert VersionPolicy(specific=(1, 9)).choose([3, 1]) == [1]


def test_reading_a_pbtxt_does_not_load_grpcio():
    code = (
        "import sys; from trilith.runtime.model_pbtxt import parse_model_pbtxt;"
        "parse_model_pbtxt('max_batch_size: 1', 'm', source='s'); assert 'grpc' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
