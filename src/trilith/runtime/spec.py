"""How one model is to be served: the one form that `config.pbtxt`, `model.yaml` and a bare folder all become.

Rule 1: values only, frozen. Where a value is None the model's own file decides, when it is loaded.
Rule 2: nothing here knows a file format or a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trilith.core.plain_numbers import plain_number
from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig
from trilith.runtime.joining import BatchInput, BatchOutput, Padding, Unpadding
from trilith.runtime.schedule import LONGEST_S, QueuePolicy
from trilith.runtime.warmup_sample import WarmupSample

DEFAULT_MAX_BATCH_SIZE: Final = 4
"""For a model that batches and does not say how much; Triton's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTensor:
    """What a configuration says of one input or output.

    Attributes:
        name: the tensor's name.
        datatype: protocol datatype, or None for the model's own.
        dims: the shape without the batch dimension, -1 for any size; None for the model's own.
        format: Triton's `format`, kept for the metadata.
        label_filename: file in the model's folder with one label a line; "" for none.
        optional: whether clients may leave the input out.
        ragged: whether the shapes of the input may differ within a batch, which then gets all elements in one row.
        pad: how the input is filled up; None: it is not.
        unpad: how the output is cut back; None: it is not.
        reshape: the shape in which the model has it, without the batch dimension; None for that of `dims`.
    """

    name: str
    datatype: DataType | None = None
    dims: tuple[int, ...] | None = None
    format: str = "FORMAT_NONE"
    label_filename: str = ""
    optional: bool = False
    ragged: bool = False
    pad: Padding | None = None
    unpad: Unpadding | None = None
    reshape: tuple[int, ...] | None = None

    @property
    def model_dims(self) -> tuple[int, ...] | None:
        """The dims that the model has."""
        return self.dims if self.reshape is None else self.reshape


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    """A named part of a model's instances, kept for the metadata: here all instances of a model are alike.

    Attributes:
        name: what the configuration calls it; "" for the model's name and a number.
        count: how many of the instances it is.
        kind: Triton's word for where they run.
        gpus: numbers of the GPUs that they ask for.
        kept: fields of Triton's that have no effect, as its message.
    """

    name: str = ""
    count: int = 1
    kind: str = "KIND_CPU"
    gpus: tuple[int, ...] = ()
    kept: bytes = b""

    @property
    def asks_for_gpu(self) -> bool:
        """Whether a GPU is meant to run them."""
        return self.kind == "KIND_GPU" or bool(self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceConfig:
    """How many batches of a model run at once.

    Attributes:
        count: instances, each a thread.
        share: whether they share one loaded model where the backend allows it (weights once).
        groups: how the configuration divides them; empty where it does not.
    """

    count: int = 1
    share: bool = True
    groups: tuple[InstanceGroup, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 256:
            raise InvalidConfig(f"instances.count: must be between 1 and 256, got {self.count}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """How requests of a model wait.

    Attributes:
        batching: whether requests may be joined to a batch; False runs each alone, whatever its rows.
        adaptive: whether the runtime learns which sizes serve best and uses them; None: where neither `preferred_rows`
            nor `max_wait_s` say anything.
        max_latency_s: learned sizes are those that take no longer than this, in seconds; None for no such bound.
        preferred_rows: sizes worth dispatching at once while a window is open.
        max_wait_s: the window; see `BatchingConfig`.
        max_queue_rows: bound on waiting rows, or None for the default.
        max_queue_size: bound on waiting requests; 0 for none beside `max_queue_rows`.
        preserve_ordering: whether answers leave in the order in which requests came, within a priority.
        timeout_s: time limit from the request's coming to its answer, in seconds; None for none. A caller's earlier
            deadline holds before it.
        policy: how long requests may wait in the queue, and how many of one priority.
        level_policies: the same for single priorities, instead of `policy`.
        priority_levels: priorities 1 to this are told apart.
        default_priority: that of a request that names none.
        says_levels: whether the configuration says those two, for clients to read.
        says_policy: whether it says `policy`.
    """

    batching: bool = True
    adaptive: bool | None = None
    max_latency_s: float | None = None
    preferred_rows: tuple[int, ...] = ()
    max_wait_s: float = 0.0
    max_queue_rows: int | None = None
    max_queue_size: int = 0
    preserve_ordering: bool = False
    timeout_s: float | None = None
    policy: QueuePolicy = field(default_factory=QueuePolicy)
    level_policies: Mapping[int, QueuePolicy] = field(default_factory=dict)
    priority_levels: int = 9
    default_priority: int = 5
    says_levels: bool = False
    says_policy: bool = False

    def __post_init__(self) -> None:
        if self.priority_levels < 1 or not 1 <= self.default_priority <= self.priority_levels:
            raise InvalidConfig(
                f"default_priority: must be between 1 and the number of levels ({self.priority_levels}), "
                f"got {self.default_priority}"
            )
        for name, value_s in (("timeout", self.timeout_s), ("max_latency", self.max_latency_s)):
            if value_s is not None and not 0 < value_s <= LONGEST_S:
                raise InvalidConfig(f"{name}: must be > 0 and <= {plain_number(LONGEST_S)} s, got {value_s} s")
        if self.adaptive and self.preferred_rows:
            raise InvalidConfig("batching: sizes are either learned (adaptive) or preferred; leave one of them out")
        wrong = [level for level in self.level_policies if not 1 <= level <= self.priority_levels]
        if wrong:
            raise InvalidConfig(
                f"level_policies: each is for a level from 1 to the number of levels ({self.priority_levels}), "
                f"got {wrong[0]}"
            )

    @property
    def learns(self) -> bool:
        """Whether batch sizes are learned."""
        if self.adaptive is None:
            return self.batching and not self.preferred_rows and self.max_wait_s == 0.0
        return self.batching and self.adaptive

    @property
    def allow_timeout_override(self) -> bool:
        """Whether a request may bring a time limit of its own, at any priority."""
        return self.policy.allow_timeout_override or any(
            policy.allow_timeout_override for policy in self.level_policies.values()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionPolicy:
    """Which version folders are served.

    Attributes:
        latest: how many of the highest; 0 for all.
        specific: exactly these, when not empty.
    """

    latest: int = 1
    specific: tuple[int, ...] = ()

    def choose(self, present: list[int]) -> list[int]:
        """The versions to serve among those present, ascending. Those of `specific` that are absent are left out."""
        if self.specific:
            return sorted(set(present) & set(self.specific))
        return sorted(present)[-self.latest :] if self.latest else sorted(present)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Where a model file is fetched from when the folder does not hold it.

    Attributes:
        reference: as `trilith.runtime.sources.resolve` reads it: `pypi:...`, `file:...`.
        sha256: hexadecimal digest that the file must have, or None.
        version: the version that it becomes.
    """

    reference: str
    sha256: str | None = None
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """How an inference session of a backend is set up. The defaults are what measures best on CPUs.

    Attributes:
        intra_op_threads: threads within one operator; 1 leaves the cores to the instances. 0: as many as cores.
        inter_op_threads: threads across operators.
        parallel: whether independent operators may run at once.
        spinning: whether idle threads of the session burn their core while they wait.
        denormal_as_zero: whether numbers too small to matter are flushed to 0 (several times faster where they occur).
        optimization: `none`, `basic`, `extended` or `all`.
        memory_arena: whether freed memory is kept for the next run.
        shrink_arena: whether what of it no run needs is given back after each one.
        memory_pattern: whether memory is planned from the shapes of earlier runs.
        providers: execution providers, best first.
        entries: further session configuration entries, passed on as they are.
    """

    intra_op_threads: int = 1
    inter_op_threads: int = 1
    parallel: bool = False
    spinning: bool = False
    denormal_as_zero: bool = True
    optimization: str = "all"
    memory_arena: bool = True
    shrink_arena: bool = False
    memory_pattern: bool = True
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    entries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """A repository agent that is asked before a model is loaded; see `agents/`.

    Attributes:
        name: the agent's.
        parameters: what it is told.
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """How one model is to be served.

    Attributes:
        name: the model's name, that of its folder.
        backend: name of the backend that runs it; "" until the folder's files tell.
        runtime: file of the backend, where it has several; "" for its usual one.
        platform: Triton's older name for backend and format, as configured or "".
        max_batch_size: most rows in a batch; 0 for a model without a batch dimension; None for what its file says.
        inputs: what the configuration declares; empty for the model's own.
        outputs: the same; when not empty, only these are offered.
        batch_inputs: inputs that are computed from a batch.
        batch_outputs: outputs that are told apart by the shapes of an input.
        reductions: outputs of the model file that are reduced where they are made, and how; see `backends/reduced.py`.
        instances: how many run at once.
        queue: how requests wait.
        versions: which versions are served.
        filename: name of the model file in a version's folder; "" for the backend's default.
        session: session options of the backend.
        graph_level: Triton's `optimization.graph.level` as configured, kept for the metadata; 0 for none.
        parameters: further options for the backend, and for clients to read.
        metric_tags: further labels of the model's metrics that have Triton's names.
        kept: fields of Triton's configuration that have no effect here, as its message: for clients to read.
        source: where the file comes from when the folder does not hold it.
        agents: asked in order before it is loaded.
        warmup: what it is run with before it serves.
        load_timeout_s: how long loading it may give no sign that it gets on, in seconds; None for the runtime's limit.
        default_rows: most rows in a batch where its file has a batch dimension and nobody says a size; 0: no batches.
        completes: whether a Python model is asked for what its configuration leaves out.
        pure: whether running a request twice is harmless, so that a failed batch may be retried in halves.
    """

    name: str
    backend: str = ""
    runtime: str = ""
    platform: str = ""
    max_batch_size: int | None = None
    inputs: tuple[DeclaredTensor, ...] = ()
    outputs: tuple[DeclaredTensor, ...] = ()
    batch_inputs: tuple[BatchInput, ...] = ()
    batch_outputs: tuple[BatchOutput, ...] = ()
    reductions: Mapping[str, str] = field(default_factory=dict)
    instances: InstanceConfig = InstanceConfig()
    queue: QueueConfig = QueueConfig()
    versions: VersionPolicy = VersionPolicy()
    filename: str = ""
    session: SessionConfig = SessionConfig()
    graph_level: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    kept: bytes = b""
    source: ModelSource | None = None
    agents: tuple[AgentSpec, ...] = ()
    warmup: tuple[WarmupSample, ...] = ()
    load_timeout_s: float | None = None
    default_rows: int = DEFAULT_MAX_BATCH_SIZE
    completes: bool = True
    pure: bool = True
