"""The port between the runtime and whatever executes a model.

Rule 1: four methods. The runtime batches, validates, splits and times; a backend loads, runs and closes.
    A `RequestBackend` gets the requests of a batch as they are instead, and answers later.
Rule 2: an adapter imports this file, never the reverse.
Rule 3: a backend need not defend itself: `run` gets validated, native, C-contiguous arrays, and is called from one
    thread at a time unless it says `concurrent`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trilith.core.model import ModelSignature
from trilith.core.request import InferRequest, Parameter
from trilith.core.tensor import Array
from trilith.errors import SetupError, TrilithError
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec
from trilith.telemetry import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """What a backend is asked to load.

    Attributes:
        model: the model's name.
        version: the version.
        path: the model file; None for a backend that needs none.
        spec: the configuration.
        instance: which of the model's instances it is for, from 0; 0 where they share one.
        folder: the model's folder; None where it has none.
    """

    model: str
    version: int
    path: Path | None
    spec: ModelSpec
    instance: int = 0
    folder: Path | None = None


class Batch:
    """What a backend is asked to run.

    Attributes:
        inputs: tensors by name, the rows of all requests one after the other.
        outputs: names of the outputs wanted, in the order in which `run` must return them.
        rows: rows in all; 1 for a model without a batch dimension.
        requests: the requests of the batch, for backends that read their parameters.
    """

    __slots__ = ("inputs", "outputs", "requests", "rows")

    def __init__(
        self, *, inputs: dict[str, Array], outputs: tuple[str, ...], rows: int, requests: Sequence[InferRequest]
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.rows = rows
        self.requests = requests


class Backend(Protocol):
    """One loaded model.

    Attributes:
        concurrent: whether several threads may call `run` at once; then instances share this object.
        inline: whether `run` is so quick (some microseconds) that a thread would cost more than it does.
    """

    concurrent: bool
    inline: bool

    def load(self) -> ModelSignature:
        """Makes the model ready to run. Called once, in a loading thread.

        Raises:
            SetupError: it cannot be loaded; the message says why and names the file.
        """
        ...

    def enter_thread(self) -> None:
        """Prepares the calling thread, which will call `run`. Called once in each instance's own thread."""
        ...

    def run(self, batch: Batch) -> Sequence[Array]:
        """The outputs named by `batch.outputs`, in that order; what it raises becomes a `ModelError`."""
        ...

    def close(self) -> None:
        """Frees the model. Called once, after the last `run` returned, also when `load` failed."""
        ...


class RequestBatch(ABC):
    """The requests of one batch, each as it is: with its own shapes, none joined to another.

    Attributes:
        requests: as they were submitted.
        inputs: for each request its validated inputs by name, in the model's order.
        outputs: for each request the names of the outputs wanted.
    """

    __slots__ = ("inputs", "outputs", "requests")

    def __init__(
        self,
        requests: Sequence[InferRequest],
        inputs: Sequence[dict[str, Array]],
        outputs: Sequence[tuple[str, ...]],
    ) -> None:
        self.requests = requests
        self.inputs = inputs
        self.outputs = outputs

    @abstractmethod
    def is_awaited(self, at: int) -> bool:
        """Whether somebody still waits for the answer of request `at`."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The outputs of one request, by name in the order asked for, and the parameters of its answer."""

    outputs: dict[str, Array]
    parameters: dict[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch.

    Attributes:
        answers: for each request its outputs, or why there are none.
        started_at: the instant in seconds at which the model began.
        finished_at: the instant at which it returned.
        begun: False when the instance died before it began the batch: another one may take it. No answers then.
    """

    answers: Sequence[Answered | TrilithError]
    started_at: float
    finished_at: float
    begun: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeReport:
    """What happened to an instance.

    Attributes:
        alive: whether it takes batches.
        over: whether nobody should wait for it: it failed too often. It may come back all the same.
        reason: why it does not, as a sentence; "" when it does.
        restarts: how often it was started again so far, by why.
    """

    alive: bool
    over: bool = False
    reason: str = ""
    restarts: Mapping[str, int] = field(default_factory=dict)


class RequestBackend(ABC):
    """One instance of a model that takes requests as they are and answers later; it may die and come back.

    All but `load` and `close` is called on the loop's thread.
    """

    concurrent = False
    inline = False

    @abstractmethod
    def load(self) -> ModelSignature:
        """See `Backend.load`."""

    @property
    def pid(self) -> int:
        """The id of the process in which it runs; 0 while there is none."""
        return 0

    @abstractmethod
    def completed(self) -> ModelSpec:
        """The configuration with what the model says of itself. After `load`."""

    def warm(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> None:
        """Runs one request, after `load` and before `attach`, and again whenever the instance is started anew. Blocks.

        Raises:
            SetupError: it failed, or the backend cannot.
        """
        raise SetupError("model_warmup is not offered for this backend; remove it")

    def tell_heard(self, heard: Callable[[], None]) -> None:  # noqa: B027 - one that is quick has nothing to tell
        """Before `load`: what it calls whenever a long `load` gets on, so that it is not taken for one that hangs."""

    def give_up(self, reason: str) -> None:  # noqa: B027 - what cannot be stopped goes on
        """Ends a `load` or a `warm` that runs in another thread, if that is possible: it raises then. Never blocks."""

    @abstractmethod
    def attach(self, loop: asyncio.AbstractEventLoop, offer: Offer, on_life: Callable[[LifeReport], None]) -> None:
        """Makes it take batches. `on_life` is told of each change, the first time that it is alive."""

    @property
    def asks_ready(self) -> bool:
        """Whether the model has a say in whether it is ready. After `load`."""
        return False

    async def is_ready(self) -> bool:
        """What the model says, where it has a say. While it is alive."""
        return True

    @property
    def has_room(self) -> bool:
        """Whether it takes another batch before the last one has ended."""
        return False

    @abstractmethod
    def begin(self, batch: RequestBatch, on_done: Callable[[Outcome], None]) -> None:
        """Runs a batch; only while it is alive. `on_done` is called once, never before this returns."""

    @abstractmethod
    def close(self) -> None:
        """See `Backend.close`. From any thread; blocks until it is gone."""


class ModelControl(Protocol):
    """The models of the runtime, for a model that asks. On the loop's thread."""

    async def load(self, name: str, parameters: Mapping[str, str | bytes]) -> None:
        """Loads or reloads a model, as a client does."""
        ...

    async def unload(self, name: str, *, dependents: bool = False) -> None:
        """Unloads a model, as a client does."""
        ...

    def is_ready(self, name: str, version: str) -> bool:
        """Whether the model's version, or any of its versions, may be called."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendKind:
    """How the runtime finds and makes a backend.

    Attributes:
        create: makes one that is not loaded yet.
        filename: the default name of the model file; "" when there is no file.
        platform: what Triton calls backend and format together.
        alternatives: further default names, best first, for a folder that lacks `filename`.
        check: sees what is wrong with a configuration, as far as that can be told without loading anything; raises
            `InvalidConfig` then. None where there is nothing to see.
        metrics: what models of this kind count for themselves, asked at each scrape; None where they cannot.
        script: the Python file that serves every model of this kind; None where each has its own, or none does.
    """

    create: Callable[[ModelFile], Backend | RequestBackend]
    filename: str = ""
    platform: str = ""
    alternatives: tuple[str, ...] = ()
    check: Callable[[ModelFile], None] | None = None
    metrics: Callable[[], Sequence[Snapshot]] | None = None
    script: Path | None = None

    @property
    def filenames(self) -> tuple[str, ...]:
        """All default names, best first; empty when there is no file."""
        return (self.filename, *self.alternatives) if self.filename else ()
