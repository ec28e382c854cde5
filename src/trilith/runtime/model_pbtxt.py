"""`config.pbtxt`: Triton's model configuration, read with Triton's own message.

Rule 1: each field is honoured, or refused by name. None is ignored.
Rule 2: a field means what it means in Triton. Without `dynamic_batching` requests are not joined; with it they are.
Rule 3: this file turns text into a `ModelSpec` and knows nothing of models. The way back is `model_proto`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format

from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime.joining import BatchInput, BatchInputKind, BatchOutput
from trilith.runtime.model_fields import STRING_OR_COMMENT, check_escapes, check_fields, parse_problem
from trilith.runtime.ranges import THREADS
from trilith.runtime.schedule import QueuePolicy, TimeoutAction
from trilith.runtime.spec import (
    DeclaredTensor,
    InstanceConfig,
    InstanceGroup,
    ModelSpec,
    QueueConfig,
    SessionConfig,
    VersionPolicy,
)
from trilith.runtime.warmup_sample import WarmupInput, WarmupSample
from trilith.wire.oip_messages import model_config_messages

PLATFORM_BACKENDS: Final[Mapping[str, str]] = {"onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch"}
"""Backends by Triton's older `platform` names."""

_CPU_KINDS: Final = ("KIND_AUTO", "KIND_CPU")
_GRAPH_LEVELS: Final[Mapping[int, str]] = {-1: "basic", 0: "all", 1: "extended", 2: "none"}
"""`optimization.graph.level` as Triton's ONNX Runtime backend reads it: 2 turns optimization off."""

_MOST_DIGITS: Final = 20
_MAX_BATCH_SIZE: Final = re.compile(r"\bmax_batch_size\s*:")


def load_model_pbtxt(path: Path, name: str) -> ModelSpec:
    """The specification of model `name` in the file at `path`.

    Raises:
        UnknownReference: the file cannot be read.
        InvalidConfig: no such text format, or a field that is wrong or not offered; the message names file and field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnknownReference(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{path}: must be UTF-8 text: {error}") from error
    return parse_model_pbtxt(text, name, source=str(path))


def parse_model_pbtxt(text: str, name: str, *, source: str) -> ModelSpec:
    """The same from the text of such a file; `source` is its name in messages."""
    config: Any = model_config_messages().ModelConfig()
    try:
        check_escapes(text)
        text_format.Parse(text, config)
    except InvalidConfig as error:
        raise InvalidConfig(f"{source}: {error.message}") from error
    except text_format.ParseError as error:
        raise InvalidConfig(f"{source}: {parse_problem(text, error)}") from error
    try:
        check_fields(config)
    except InvalidConfig as error:
        raise InvalidConfig(f"{source}: {error.message}") from error
    if config.name not in ("", name):
        raise InvalidConfig(f"{source}: name: must be that of the folder ({name!r}) or left out, got {config.name!r}")
    try:
        return _spec(config, name, says_max_batch_size=says_max_batch_size(text))
    except InvalidConfig as error:
        raise InvalidConfig(f"{source}: {error.message}") from error


def says_max_batch_size(text: str) -> bool:
    """Whether the text sets it: protobuf does not tell a 0 that was written from one that was not."""
    return _MAX_BATCH_SIZE.search(STRING_OR_COMMENT.sub('""', text)) is not None


def _spec(config: Any, name: str, *, says_max_batch_size: bool) -> ModelSpec:
    backend = config.backend or PLATFORM_BACKENDS.get(config.platform, config.platform)
    parameters = {key: value.string_value for key, value in sorted(config.parameters.items())}
    spec = ModelSpec(
        name=name,
        backend=backend,
        platform=config.platform,
        max_batch_size=config.max_batch_size if says_max_batch_size else None,
        inputs=tuple(_tensor(tensor, f"input[{at}]") for at, tensor in enumerate(config.input)),
        outputs=tuple(_tensor(tensor, f"output[{at}]") for at, tensor in enumerate(config.output)),
        batch_inputs=tuple(_batch_input(each, f"batch_input[{at}]") for at, each in enumerate(config.batch_input)),
        batch_outputs=tuple(_batch_output(each, f"batch_output[{at}]") for at, each in enumerate(config.batch_output)),
        instances=_instances(config.instance_group),
        queue=_queue(config.dynamic_batching, joins=not says_max_batch_size or config.HasField("dynamic_batching")),
        versions=_versions(config),
        filename=config.default_model_filename,
        graph_level=config.optimization.graph.level,
        warmup=tuple(_warmup(sample) for sample in config.model_warmup),
        parameters=parameters,
    )
    return with_session(spec) if backend else spec


def with_session(spec: ModelSpec) -> ModelSpec:
    """The specification once its backend is known: what the configuration says to that backend.

    Raises:
        InvalidConfig: a parameter or the graph level is wrong, or means nothing to the backend.
    """
    if spec.backend == "onnxruntime":
        return replace(spec, session=_session(spec.parameters, spec.graph_level))
    if spec.graph_level:
        raise InvalidConfig(f"optimization.graph.level: means nothing to the backend {spec.backend!r}; remove it")
    return spec


def _tensor(tensor: Any, path: str) -> DeclaredTensor:
    if not tensor.name:
        raise InvalidConfig(f"{path}.name: is missing")
    if 0 in tensor.dims:
        raise InvalidConfig(f"{path}.dims: each must be >= 1, or -1 for any size; got {list(tensor.dims)}")
    return DeclaredTensor(
        name=tensor.name,
        datatype=_datatype(tensor.data_type),
        dims=tuple(tensor.dims) or None,
        format=model_config_messages().ModelInput.Format.Name(tensor.format)
        if hasattr(tensor, "format")
        else "FORMAT_NONE",
        label_filename=getattr(tensor, "label_filename", ""),
        optional=getattr(tensor, "optional", False),
        ragged=getattr(tensor, "allow_ragged_batch", False),
    )


def _batch_input(entry: Any, path: str) -> BatchInput:
    word = model_config_messages().BatchInput.Kind.Name(entry.kind)
    datatype = _datatype(entry.data_type) or DataType.FP32
    if datatype not in (DataType.FP32, DataType.INT32):
        raise InvalidConfig(f"{path}.data_type: must be TYPE_FP32 or TYPE_INT32, got TYPE_{datatype}")
    return BatchInput(
        kind=BatchInputKind(word), targets=_targets(entry, path), source=_source(entry, path), datatype=datatype
    )


def _batch_output(entry: Any, path: str) -> BatchOutput:
    return BatchOutput(targets=_targets(entry, path), source=_source(entry, path))


def _targets(entry: Any, path: str) -> tuple[str, ...]:
    if not entry.target_name:
        raise InvalidConfig(f"{path}.target_name: at least one must be named")
    return tuple(entry.target_name)


def _source(entry: Any, path: str) -> str:
    if len(entry.source_input) != 1:
        raise InvalidConfig(f"{path}.source_input: must be one input, got {len(entry.source_input)}")
    return str(entry.source_input[0])


def _warmup(sample: Any) -> WarmupSample:
    inputs = []
    for name, tensor in sorted(sample.inputs.items()):
        datatype, choice = _datatype(tensor.data_type), tensor.WhichOneof("input_data_type")
        if datatype is None or choice is None:
            raise InvalidConfig(
                f"model_warmup: sample '{sample.name}': input '{name}' needs data_type, dims, and one of zero_data, "
                "random_data and input_data_file"
            )
        inputs.append(
            WarmupInput(
                name=name,
                datatype=datatype,
                dims=tuple(tensor.dims),
                random=choice == "random_data",
                filename=tensor.input_data_file,
            )
        )
    return WarmupSample(name=sample.name, rows=sample.batch_size or 1, count=sample.count or 1, inputs=tuple(inputs))


def _datatype(number: int) -> DataType | None:
    word = str(model_config_messages().DataType.Name(number)).removeprefix("TYPE_")
    if word == "INVALID":
        return None
    return DataType.BYTES if word == "STRING" else DataType(word)


def _instances(groups: Any) -> InstanceConfig:
    kinds = model_config_messages().ModelInstanceGroup.Kind
    for at, group in enumerate(groups):
        kind = kinds.Name(group.kind)
        if kind not in _CPU_KINDS:
            raise InvalidConfig(f"instance_group[{at}].kind: must be one of {', '.join(_CPU_KINDS)}, got {kind}")
    named = tuple(InstanceGroup(name=group.name, count=group.count or 1) for group in groups)
    return InstanceConfig(count=sum(group.count for group in named) or 1, groups=named)


def _queue(batching: Any, *, joins: bool) -> QueueConfig:
    levels = batching.priority_levels
    for field in ("default_priority_level", "priority_queue_policy"):
        if getattr(batching, field) and not levels:
            raise InvalidConfig(f"dynamic_batching.{field}: means nothing without priority_levels")
    defaults = QueueConfig()
    policy = defaults.policy
    if batching.HasField("default_queue_policy"):
        policy = _policy(batching.default_queue_policy)
    max_queue_size = 0
    if not levels:  # one queue for all
        max_queue_size, policy = policy.max_queue_size, replace(policy, max_queue_size=0)
    return QueueConfig(
        batching=joins,
        preferred_rows=tuple(batching.preferred_batch_size),
        max_wait_s=batching.max_queue_delay_microseconds / 1e6,
        max_queue_size=max_queue_size,
        preserve_ordering=batching.preserve_ordering,
        policy=policy,
        level_policies={level: _policy(each) for level, each in sorted(batching.priority_queue_policy.items())},
        priority_levels=levels or defaults.priority_levels,
        default_priority=batching.default_priority_level if levels else defaults.default_priority,
    )


def _policy(policy: Any) -> QueuePolicy:
    """A policy that is written down means what it means in Triton: no override unless it says true."""
    timeout_us = policy.default_timeout_microseconds
    action = model_config_messages().ModelQueuePolicy.TimeoutAction.Name(policy.timeout_action)
    return QueuePolicy(
        timeout_s=timeout_us / 1e6 if timeout_us else None,
        timeout_action=TimeoutAction(action),
        allow_timeout_override=policy.allow_timeout_override,
        max_queue_size=policy.max_queue_size,
    )


def _versions(config: Any) -> VersionPolicy:
    policy = config.version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return VersionPolicy(latest=0)
    if choice == "specific":
        if not policy.specific.versions:
            raise InvalidConfig("version_policy.specific.versions: at least one version must be named")
        return VersionPolicy(specific=tuple(policy.specific.versions))
    return VersionPolicy(latest=policy.latest.num_versions or 1)


def _session(parameters: Mapping[str, str], level: int) -> SessionConfig:
    """Triton's parameters of its ONNX Runtime backend."""
    known: dict[str, Any] = {}
    entries: dict[str, str] = {}
    for key, value in parameters.items():
        if key in ("intra_op_thread_count", "inter_op_thread_count"):
            known[key.replace("_thread_count", "_threads")] = count = _count(key, value)
            THREADS.check(f"parameters.{key}", count)
        elif key == "execution_mode":
            known["parallel"] = _switch(key, value)
        elif key == "enable_mem_arena":
            known["memory_arena"] = _switch(key, value)
        elif key == "enable_mem_pattern":
            known["memory_pattern"] = _switch(key, value)
        elif key.startswith("session."):
            entries[key] = value
        else:
            raise InvalidConfig(
                f"parameters.{key}: unknown to the onnxruntime backend; expected intra_op_thread_count, "
                "inter_op_thread_count, execution_mode, enable_mem_arena, enable_mem_pattern or a session.* entry"
            )
    return SessionConfig(**known, optimization=_GRAPH_LEVELS[level], entries=entries)


def _count(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise InvalidConfig(f"parameters.{key}: must be an integer >= 0, got {text!r:.100}")
    return int(text)


def _switch(key: str, text: str) -> bool:
    number = _count(key, text)
    if number > 1:
        raise InvalidConfig(f"parameters.{key}: must be 0 or 1, got {text!r}")
    return number == 1
