"""`config.pbtxt`: Triton's model configuration, read with Triton's own message.

Rule 1: each field is honoured, or refused by name. None is ignored.
Rule 2: a field means what it means in Triton. Without `dynamic_batching` requests are not joined; with it they are.
Rule 3: this file turns text into a `ModelSpec` and knows nothing of models. The way back is `model_proto`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format

from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime.batching import check_queue
from trilith.runtime.idle_fields import first_response_bounds, kept_fields, kept_group_fields
from trilith.runtime.joining import BatchInput, BatchInputKind, BatchOutput
from trilith.runtime.model_fields import STRING_OR_COMMENT, check_escapes, field_problems, parse_problem
from trilith.runtime.onnx_parameters import onnx_session
from trilith.runtime.reshaping import Reshape
from trilith.runtime.schedule import QueuePolicy, TimeoutAction
from trilith.runtime.spec import (
    AgentSpec,
    DeclaredTensor,
    InstanceConfig,
    InstanceGroup,
    ModelSpec,
    QueueConfig,
    VersionPolicy,
)
from trilith.runtime.warmup_sample import WarmupInput, WarmupSample
from trilith.runtime.words import PBTXT_WORDS, Problems, ValueT
from trilith.wire.oip_messages import model_config_messages

PLATFORM_BACKENDS: Final[Mapping[str, str]] = {"onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch"}
"""Backends by Triton's older `platform` names."""

_LABEL: Final = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
_LABELS_OF_MODELS: Final = frozenset(("gpu_uuid", "le", "model", "namespace", "quantile", "reason", "version"))
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
        found = field_problems(config)
    except InvalidConfig as error:
        raise InvalidConfig(f"{source}: {error.message}") from error
    except text_format.ParseError as error:
        raise InvalidConfig(f"{source}: {parse_problem(text, error)}") from error
    if config.name not in ("", name):
        found.append(f"name: must be that of the folder ({name!r}) or left out, got {config.name!r}")
    problems = Problems(PBTXT_WORDS, found)
    spec = _spec(config, name, problems, says_max_batch_size=says_max_batch_size(text))
    problems.check(source)
    return spec


def says_max_batch_size(text: str) -> bool:
    """Whether the text sets it: protobuf does not tell a 0 that was written from one that was not."""
    return _MAX_BATCH_SIZE.search(STRING_OR_COMMENT.sub('""', text)) is not None


def _spec(config: Any, name: str, problems: Problems, *, says_max_batch_size: bool) -> ModelSpec:
    backend = config.backend or PLATFORM_BACKENDS.get(config.platform, config.platform)
    read, joins = problems.read, not says_max_batch_size or config.HasField("dynamic_batching")

    def every(field: str, one: Callable[[Any, str], ValueT]) -> tuple[ValueT, ...]:
        entries = enumerate(getattr(config, field))
        found = [read(lambda at=at, entry=entry: one(entry, f"{field}[{at}]"), None) for at, entry in entries]  # type: ignore[misc]  # each its own
        return tuple(value for value in found if value is not None)

    spec = ModelSpec(
        name=name,
        backend=backend,
        runtime=config.runtime,
        platform=config.platform,
        max_batch_size=config.max_batch_size if says_max_batch_size else None,
        inputs=every("input", _tensor),
        outputs=every("output", _tensor),
        batch_inputs=every("batch_input", _batch_input),
        batch_outputs=every("batch_output", _batch_output),
        instances=read(lambda: _instances(config.instance_group), InstanceConfig()),
        queue=read(lambda: _queue(config.dynamic_batching, joins=joins), QueueConfig()),
        versions=read(lambda: _versions(config), VersionPolicy()),
        filename=config.default_model_filename,
        graph_level=config.optimization.graph.level,
        warmup=every("model_warmup", lambda sample, _: _warmup(sample)),
        parameters={key: value.string_value for key, value in sorted(config.parameters.items())},
        metric_tags=read(lambda: _metric_tags(config), {}),
        agents=read(lambda: _agents(config.model_repository_agents.agents), ()),
        kept=kept_fields(config),
    )
    read(lambda: check_queue(spec), None)
    read(lambda: first_response_bounds(spec.kept), None)
    return read(lambda: with_session(spec), spec)


def with_session(spec: ModelSpec) -> ModelSpec:
    """The specification once its backend is known: what the configuration says to that backend.

    Raises:
        InvalidConfig: a parameter or the graph level is wrong.
    """
    if spec.backend == "onnxruntime":
        return replace(spec, session=onnx_session(spec.parameters, spec.graph_level))
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
        reshape=_reshape(tensor, path) if tensor.HasField("reshape") else None,
    )


def _reshape(tensor: Any, path: str) -> tuple[int, ...]:
    inside = tuple(tensor.reshape.shape)
    if 0 in inside:
        raise InvalidConfig(f"{path}.reshape.shape: each must be >= 1, or -1 for any size; got {list(inside)}")
    if not tensor.dims or getattr(tensor, "allow_ragged_batch", False):
        raise InvalidConfig(f"{path}.reshape: needs dims, and cannot stand beside allow_ragged_batch")
    try:
        return Reshape(tuple(tensor.dims), inside).inside
    except InvalidConfig as error:
        raise InvalidConfig(f"{path}.reshape: '{tensor.name}' {error.message}") from error


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


def _agents(agents: Any) -> tuple[AgentSpec, ...]:
    for at, agent in enumerate(agents):
        if not agent.name:
            raise InvalidConfig(f"model_repository_agents.agents[{at}].name: is missing")
    return tuple(AgentSpec(name=agent.name, parameters=dict(sorted(agent.parameters.items()))) for agent in agents)


def _instances(groups: Any) -> InstanceConfig:
    kinds = model_config_messages().ModelInstanceGroup.Kind
    named = tuple(
        InstanceGroup(
            name=group.name,
            count=group.count or 1,
            kind="KIND_CPU" if group.kind == kinds.Value("KIND_AUTO") and not group.gpus else kinds.Name(group.kind),
            gpus=tuple(group.gpus),
            kept=kept_group_fields(group),
        )
        for group in groups
    )
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
        says_levels=bool(levels),
        says_policy=batching.HasField("default_queue_policy"),
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


def _metric_tags(config: Any) -> dict[str, str]:
    for name in config.metric_tags:
        if not _LABEL.fullmatch(name) or name in _LABELS_OF_MODELS:
            raise InvalidConfig(
                f"metric_tags: must be names of labels (letters, digits and _) other than "
                f"{', '.join(sorted(_LABELS_OF_MODELS))}, got {name!r:.100}"
            )
    return dict(sorted(config.metric_tags.items()))


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
