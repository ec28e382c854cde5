"""`model.yaml`: the pleasant way to say how a model is served.

    backend: onnxruntime            # found by the file's name when left out
    max_batch_size: 8               # left out: what the model file allows
    instances: 2                    # or {count: 2, share_session: false}
    batching: {preferred: [4, 8], max_wait_ms: 2, preserve_ordering: true}  # or false
    queue: {max_size: 64, timeout_ms: 100, timeout_action: delay}
    priority: {levels: 3, default: 2, policies: {1: {timeout_ms: 20}}}
    versions: latest                # or all, {latest: 2}, [1, 3]
    session: {intra_op_threads: 1, spinning: false}
    timeout_ms: 2000
    load_timeout_ms: 1800000
    outputs: [{name: scores, reduce: argmax}]   # left out: all; reduced ones leave as scores.index and scores.value
    source: "pypi:rapidocr==3.10.0#rapidocr/models/ch_det.onnx"
    sha256: 4f1c...
    triton: {response_cache: {}}    # fields of Triton's config.pbtxt that have no other form here; see `model_convert`

Rule: this file turns text into a `ModelSpec` and knows nothing of models.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from trilith.config import convert, load_yaml
from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig
from trilith.runtime import ranges
from trilith.runtime.batching import check_queue
from trilith.runtime.joining import BatchInput, BatchInputKind, BatchOutput, Padding, Unpadding
from trilith.runtime.reductions import INDEX, VALUE
from trilith.runtime.schedule import QueuePolicy, TimeoutAction
from trilith.runtime.spec import (
    AgentSpec,
    DeclaredTensor,
    InstanceConfig,
    ModelSource,
    ModelSpec,
    QueueConfig,
    SessionConfig,
    VersionPolicy,
)
from trilith.runtime.words import YAML_WORDS, in_words

Count = Annotated[int, msgspec.Meta(ge=0, le=ranges.INT32.most)]
Size = Annotated[int, msgspec.Meta(ge=0, le=ranges.UINT32.most)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=ranges.INT32.most)]
Axis = Annotated[int, msgspec.Meta(ge=-64, le=63)]  # of an array of NumPy's
Version = Annotated[int, msgspec.Meta(ge=1, le=ranges.VERSIONS.most)]
Instances = Annotated[int, msgspec.Meta(ge=1, le=ranges.INSTANCES.most)]
Level = Annotated[int, msgspec.Meta(ge=1, le=ranges.LEVELS.most)]
Threads = Annotated[int, msgspec.Meta(ge=0, le=ranges.THREADS.most)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=ranges.MILLISECONDS.most)]
Limit = Annotated[float, msgspec.Meta(gt=0, le=ranges.MILLISECONDS.most)]
Dimension = Annotated[int, msgspec.Meta(ge=-1, le=ranges.DIMENSION.most)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Scalar = bool | int | float | str


class _Strict(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A mapping in which an unknown key is an error."""


class _Tensor(_Strict, frozen=True):
    name: Name
    datatype: DataType | None = None
    dims: list[Dimension] | None = None
    labels: str = ""


class _Pad(_Strict, frozen=True):
    axis: Axis
    value: float = 0
    buckets: list[Positive] = []
    multiple_of: Count = 0
    mask: str = ""
    lengths: str = ""


class _Unpad(_Strict, frozen=True):
    axis: Axis
    input: str
    divide_by: Positive = 1


class _Input(_Tensor, frozen=True):
    optional: bool = False
    ragged: bool = False
    pad: _Pad | None = None


class _Output(_Tensor, frozen=True):
    reduce: Literal["argmax"] | None = None
    unpad: _Unpad | None = None


class _BatchInput(_Strict, frozen=True):
    kind: Literal[
        "element_count",
        "accumulated_element_count",
        "accumulated_element_count_with_zero",
        "max_element_count_as_shape",
        "item_shape",
        "item_shape_flatten",
    ]
    targets: Annotated[list[Name], msgspec.Meta(min_length=1)]
    source: Name
    datatype: Literal["FP32", "INT32"] = "FP32"


class _BatchOutput(_Strict, frozen=True):
    targets: Annotated[list[Name], msgspec.Meta(min_length=1)]
    source: Name


class _Instances(_Strict, frozen=True):
    count: Instances = 1
    share_session: bool = True


class _Batching(_Strict, frozen=True):
    adaptive: bool | None = None
    max_latency_ms: Limit | None = None
    preferred: list[Positive] = []
    max_wait_ms: Milliseconds = 0.0
    preserve_ordering: bool = False


class _Policy(_Strict, frozen=True):
    timeout_ms: Limit | None = None
    timeout_action: Literal["reject", "delay"] = "reject"
    allow_timeout_override: bool = True
    max_size: Size = 0


class _Queue(_Policy, frozen=True):
    max_rows: Positive | None = None


class _Priority(_Strict, frozen=True):
    levels: Level = 9
    default: Level = 5
    policies: dict[Level, _Policy] = {}


class _Latest(_Strict, frozen=True):
    latest: Positive


class _Agent(_Strict, frozen=True):
    name: Name
    parameters: dict[str, str] = {}


class _Session(_Strict, frozen=True):
    intra_op_threads: Threads = 1
    inter_op_threads: Threads = 1
    parallel: bool = False
    spinning: bool = False
    denormal_as_zero: bool = True
    optimization: Literal["none", "basic", "extended", "all"] = "all"
    memory_arena: bool = True
    memory_pattern: bool = True
    providers: list[str] = msgspec.field(default_factory=lambda: ["CPUExecutionProvider"])
    entries: dict[str, str] = {}


class Model(_Strict, frozen=True):
    """The content of a `model.yaml`."""

    name: str | None = None
    backend: str = ""
    runtime: str = ""
    max_batch_size: Count | None = None
    inputs: list[_Input] = []
    outputs: list[_Output] = []
    batch_inputs: list[_BatchInput] = []
    batch_outputs: list[_BatchOutput] = []
    instances: Instances | _Instances = 1
    batching: _Batching | bool = True
    queue: _Queue = _Queue()
    priority: _Priority = _Priority()
    versions: Literal["latest", "all"] | _Latest | Annotated[list[Version], msgspec.Meta(min_length=1)] = "latest"
    session: _Session = _Session()
    source: str | None = None
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{64}$")] | None = None
    version: Version = 1
    filename: str = ""
    agents: list[_Agent] = []
    parameters: dict[str, Scalar] = {}
    timeout_ms: Limit | None = None
    load_timeout_ms: Limit | None = None
    pure: bool = True
    triton: dict[str, Any] | None = None


def load_model_yaml(path: Path, name: str) -> ModelSpec:
    """The specification of model `name` in the file at `path`.

    Raises:
        UnknownReference: the file cannot be read.
        InvalidConfig: a key or a value is wrong; the message starts with the file and the key's path.
    """
    return spec_of_values(load_yaml(path, dict[str, Any]), name, source=str(path))


def spec_of_values(values: dict[str, Any], name: str, *, source: str) -> ModelSpec:
    """The specification that the content of a `model.yaml` gives.

    Raises:
        InvalidConfig: a key or a value is wrong; the message starts with `source` and the key's path.
    """
    raw = convert(values, Model, source=source)
    if raw.name not in (None, name):
        raise InvalidConfig(f"{source}: name: must be that of the folder ({name!r}) or left out, got {raw.name!r}")
    try:
        if raw.triton is not None:
            from trilith.runtime.model_convert import read_through_pbtxt

            return read_through_pbtxt(values, name, source=source)
        spec = _spec(raw, name, source=source)
        check_queue(spec)
    except InvalidConfig as error:
        if error.message.startswith(source):
            raise
        raise InvalidConfig(f"{source}: {in_words(error.message, YAML_WORDS)}") from error
    return spec


def _spec(raw: Model, name: str, *, source: str) -> ModelSpec:
    if raw.sha256 is not None and raw.source is None:
        raise InvalidConfig(f"{source}: sha256: is the digest of what `source` fetches, and there is no `source`")
    instances = raw.instances if isinstance(raw.instances, _Instances) else _Instances(count=raw.instances)
    batching = raw.batching if isinstance(raw.batching, _Batching) else _Batching()
    return ModelSpec(
        name=name,
        backend=raw.backend,
        runtime=raw.runtime,
        max_batch_size=raw.max_batch_size,
        inputs=tuple(_tensor(tensor) for tensor in raw.inputs),
        outputs=tuple(_tensor(tensor) for output in raw.outputs for tensor in _offered(output, source)),
        batch_inputs=tuple(
            BatchInput(
                kind=BatchInputKind(f"BATCH_{each.kind.upper()}"),
                targets=tuple(each.targets),
                source=each.source,
                datatype=DataType(each.datatype),
            )
            for each in raw.batch_inputs
        ),
        batch_outputs=tuple(BatchOutput(targets=tuple(each.targets), source=each.source) for each in raw.batch_outputs),
        reductions={output.name: output.reduce for output in raw.outputs if output.reduce is not None},
        instances=InstanceConfig(count=instances.count, share=instances.share_session),
        queue=_queue(raw, batching),
        versions=_versions(raw.versions),
        filename=raw.filename,
        session=SessionConfig(
            **{
                **{field: getattr(raw.session, field) for field in raw.session.__struct_fields__},
                "providers": tuple(raw.session.providers),
            }
        ),
        parameters={key: _text(value) for key, value in raw.parameters.items()},
        source=None
        if raw.source is None
        else ModelSource(reference=raw.source, sha256=raw.sha256, version=raw.version),
        agents=tuple(
            AgentSpec(name=each.name, parameters=dict(sorted(each.parameters.items()))) for each in raw.agents
        ),
        load_timeout_s=None if raw.load_timeout_ms is None else raw.load_timeout_ms / 1e3,
        pure=raw.pure,
    )


def _queue(raw: Model, batching: _Batching) -> QueueConfig:
    queue, priority = raw.queue, raw.priority
    return QueueConfig(
        batching=raw.batching is not False,
        adaptive=batching.adaptive,
        max_latency_s=None if batching.max_latency_ms is None else batching.max_latency_ms / 1e3,
        preferred_rows=tuple(batching.preferred),
        max_wait_s=round(batching.max_wait_ms * 1e6) / 1e9,
        max_queue_rows=queue.max_rows,
        max_queue_size=queue.max_size,
        preserve_ordering=batching.preserve_ordering,
        timeout_s=None if raw.timeout_ms is None else raw.timeout_ms / 1e3,
        policy=replace(_policy(queue), max_queue_size=0),  # as a bound of the queue, it is one of all priorities
        level_policies={level: _policy(policy) for level, policy in sorted(priority.policies.items())},
        priority_levels=priority.levels,
        default_priority=priority.default,
        says_levels=priority != _Priority(),
        says_policy=queue != _Queue(),
    )


def _policy(raw: _Policy) -> QueuePolicy:
    return QueuePolicy(
        timeout_s=None if raw.timeout_ms is None else raw.timeout_ms / 1e3,
        timeout_action=TimeoutAction(raw.timeout_action.upper()),
        allow_timeout_override=raw.allow_timeout_override,
        max_queue_size=raw.max_size,
    )


def _offered(output: _Output, source: str) -> list[_Tensor]:
    """The tensors that clients see of an output: itself, or what it is reduced to."""
    if output.reduce is None:
        return [output]
    if output.datatype is not None or output.dims is not None or output.labels or output.unpad is not None:
        raise InvalidConfig(f"{source}: outputs: {output.name}: `reduce` stands alone; the rest follows from the model")
    return [_Tensor(name=output.name + INDEX), _Tensor(name=output.name + VALUE)]


def _tensor(raw: _Tensor) -> DeclaredTensor:
    side = "inputs" if isinstance(raw, _Input) else "outputs"
    if side == "inputs" and raw.labels:
        raise InvalidConfig(f"inputs: {raw.name}: labels: only outputs have labels; remove it")
    if raw.dims is not None and 0 in raw.dims:
        raise InvalidConfig(f"{side}: {raw.name}: dims: each must be >= 1, or -1 for any size; got {raw.dims}")
    pad = raw.pad if isinstance(raw, _Input) else None
    unpad = raw.unpad if isinstance(raw, _Output) else None
    return DeclaredTensor(
        name=raw.name,
        datatype=raw.datatype,
        dims=None if raw.dims is None else tuple(raw.dims),
        label_filename=raw.labels,
        optional=isinstance(raw, _Input) and raw.optional,
        ragged=isinstance(raw, _Input) and raw.ragged,
        pad=None if pad is None else Padding(**{**msgspec.structs.asdict(pad), "buckets": tuple(pad.buckets)}),
        unpad=None if unpad is None else Unpadding(**msgspec.structs.asdict(unpad)),
    )


def _versions(raw: str | _Latest | list[int]) -> VersionPolicy:
    if isinstance(raw, _Latest):
        return VersionPolicy(latest=raw.latest)
    if isinstance(raw, list):
        return VersionPolicy(specific=tuple(raw))
    return VersionPolicy(latest=0 if raw == "all" else 1)


def _text(value: Scalar) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
