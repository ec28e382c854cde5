"""The port between the runtime and whatever executes a model.

Rule 1: four methods. The runtime batches, validates, splits and times; a backend loads, runs and closes.
Rule 2: an adapter imports this file, never the reverse.
Rule 3: a backend need not defend itself: `run` gets validated, native, C-contiguous arrays, and is called from one
    thread at a time unless it says `concurrent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trilith.core.model import ModelSignature
from trilith.core.request import InferRequest
from trilith.core.tensor import Array
from trilith.runtime.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """What a backend is asked to load.

    Attributes:
        model: the model's name.
        version: the version.
        path: the model file; None for a backend that needs none.
        spec: the configuration.
        instance: which of the model's instances it is for, from 0; 0 where they share one.
    """

    model: str
    version: int
    path: Path | None
    spec: ModelSpec
    instance: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendKind:
    """How the runtime finds and makes a backend.

    Attributes:
        create: makes one that is not loaded yet.
        filename: the default name of the model file; "" when there is no file.
        platform: what Triton calls backend and format together.
        alternatives: further default names, best first, for a folder that lacks `filename`.
    """

    create: Callable[[ModelFile], Backend]
    filename: str = ""
    platform: str = ""
    alternatives: tuple[str, ...] = ()

    @property
    def filenames(self) -> tuple[str, ...]:
        """All default names, best first; empty when there is no file."""
        return (self.filename, *self.alternatives) if self.filename else ()
