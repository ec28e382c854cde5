"""What the protocol fronts need of the runtime: the port that `Runtime` fills, and that tests fill with less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from trilith.core.context import Context
from trilith.core.request import InferRequest
from trilith.core.tensor import TensorSpec
from trilith.errors import TrilithError
from trilith.runtime.load_threads import LoadStatistics
from trilith.runtime.statistics import ModelStatistics
from trilith.runtime.ticket import OnDone
from trilith.telemetry import Snapshot


class TicketPort(Protocol):
    """A submitted request."""

    def cancel(self) -> object:
        """Takes the request back."""
        ...


class ModelPort(Protocol):
    """One loaded version of a model."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def namespace(self) -> str:
        """The repository that it is of, where those are namespaces; else ""."""
        ...

    @property
    def version(self) -> str:
        """This version."""
        ...

    @property
    def versions(self) -> Sequence[str]:
        """All versions that are served."""
        ...

    @property
    def platform(self) -> str:
        """What runs it, in Triton's words."""
        ...

    @property
    def backend(self) -> str:
        """The backend that runs it."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Declared inputs, with the batch dimension."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Declared outputs, with the batch dimension."""
        ...

    async def says_ready(self) -> bool:
        """Whether it is ready and, where the model has a say in that, says so itself."""
        ...

    @property
    def load_s(self) -> float | None:
        """Seconds that loading it took; None until it is loaded."""
        ...

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """What the classes of outputs are called."""
        ...

    @property
    def metric_tags(self) -> Mapping[str, str]:
        """Further labels of its metrics that have Triton's names."""
        ...

    @property
    def max_batch_size(self) -> int:
        """0 when the model does not batch."""
        ...

    @property
    def state(self) -> str:
        """`READY`, or another of Triton's words."""
        ...

    @property
    def recovering(self) -> bool:
        """Whether it is not ready only because its instances are being started again: requests may wait."""
        ...

    @property
    def unloaded(self) -> bool:
        """Whether somebody wanted it unloaded, and it is."""
        ...

    @property
    def public_reason(self) -> str:
        """Why it is in that state as any client may know it, or ""."""
        ...

    def config_proto(self) -> Any:
        """The configuration as a protobuf `inference.ModelConfig`, completed."""
        ...


class RepositoryPort(Protocol):
    """What clients may ask of the model repositories."""

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        """Name, version, state and reason of every model version; the name alone of a model that was never loaded."""
        ...

    async def load(self, name: str, parameters: Mapping[str, str | bytes]) -> None:
        """Loads or reloads a model."""
        ...

    async def unload(self, name: str, *, dependents: bool) -> None:
        """Unloads a model."""
        ...

    async def host(self, name: str, url: str) -> None:
        """Loads a model by a name of the client's from a folder or URL of the client's."""
        ...

    def hosted(self) -> Mapping[str, str]:
        """By name that folder or URL of each such model that is there, or whose end is still waited for."""
        ...


class RuntimePort(Protocol):
    """A runtime, used from the event loop's thread."""

    @property
    def repository(self) -> RepositoryPort:
        """The model repositories."""
        ...

    @property
    def ready(self) -> bool:
        """Whether every model that should be served is."""
        ...

    def absent(self, name: str) -> bool:
        """Whether a model is not in memory, and is loaded when somebody wants it, if there is one of that name."""
        ...

    async def obtainable(self, name: str) -> bool:
        """Whether a model is absent, and there is one of that name; raises `CapacityError` when that is not said."""
        ...

    def seems_obtainable(self, name: str) -> bool:
        """The same by what was seen last, for who asks again."""
        ...

    def want(self, name: str, on_loaded: Callable[[TrilithError | None], None]) -> TicketPort | None:
        """Begins to load a model that is absent; `on_loaded` is told when it is there, or why it is not.

        What takes that back; None when `on_loaded` was called before this returns.
        """
        ...

    def submit(self, request: InferRequest, context: Context | None, on_done: OnDone) -> TicketPort:
        """Enqueues a request. `on_done` is called once, on the loop; raises `TrilithError` when it is refused."""
        ...

    def models(self) -> Sequence[ModelPort]:
        """All loaded models."""
        ...

    def model(self, name: str, version: str = "") -> ModelPort:
        """One model, or raises `UnknownModel`."""
        ...

    def statistics(self, name: str | None = None) -> Sequence[ModelStatistics]:
        """Statistics of all versions of one or of all models."""
        ...

    def load_statistics(self) -> LoadStatistics:
        """How many loads wait, run, and run on after they were given up."""
        ...

    def model_metrics(self) -> Sequence[Snapshot]:
        """What models count for themselves."""
        ...
