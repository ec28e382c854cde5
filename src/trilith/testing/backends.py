"""Models without a model: what they were asked to run can be looked at, held up, and made to fail.

echo = EchoBackend()
runtime = Runtime(folder, config=RuntimeConfig(backends={"echo": kind_of(echo)}))
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from trilith.core.tensor import Array, DataType, TensorSpec
from trilith.runtime import Backend, BackendKind, Batch, ModelFile, ModelSignature

_INPUT = TensorSpec(name="x", datatype=DataType.FP32, shape=(-1, -1))


class EchoBackend:
    """Its outputs are its inputs: the n-th is called `y` or, of several, `y0`, `y1` ...

    Args:
        inputs: what it takes; by default `x`, FP32, [-1, -1].
        concurrent: whether several threads may run it.
        inline: whether it runs on the loop's thread.

    Attributes:
        executed: rows of each batch that began, in order.
        loaded: how often it was loaded.
        closed: how often it was closed.
        most_at_once: most threads that ran it at the same time.
    """

    def __init__(
        self, *, inputs: Sequence[TensorSpec] = (_INPUT,), concurrent: bool = True, inline: bool = False
    ) -> None:
        self.concurrent = concurrent
        self.inline = inline
        self.executed: list[int] = []
        self.loaded = self.closed = self.most_at_once = 0
        self._inputs = tuple(inputs)
        names = ["y"] if len(self._inputs) == 1 else [f"y{at}" for at in range(len(self._inputs))]
        self._source = {name: spec.name for name, spec in zip(names, self._inputs, strict=True)}
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._running = 0

    def load(self) -> ModelSignature:
        """Tells what it takes and gives."""
        self.loaded += 1
        outputs = (
            TensorSpec(name=name, datatype=spec.datatype, shape=spec.shape)
            for name, spec in zip(self._source, self._inputs, strict=True)
        )
        return ModelSignature(inputs=self._inputs, outputs=tuple(outputs))

    def enter_thread(self) -> None:
        """A thread needs no preparation."""

    def run(self, batch: Batch) -> Sequence[Array]:
        """Gives the inputs back, when it is not held."""
        with self._lock:
            self.executed.append(batch.rows)
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
        try:
            self._open.wait()
            self.before_answer(batch)
            return [batch.inputs[self._source[name]] for name in batch.outputs]
        finally:
            with self._lock:
                self._running -= 1

    def before_answer(self, batch: Batch) -> None:
        """For subclasses that fail."""

    def close(self) -> None:
        """Counts."""
        self.closed += 1

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, batches begin and do not end."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()


class FlakyBackend(EchoBackend):
    """An echo that fails when it is told to.

    Args:
        fails: whether a batch fails, from the batch.
        error: what is raised then.
        inputs: as for `EchoBackend`.
    """

    def __init__(
        self,
        fails: Callable[[Batch], bool],
        *,
        error: Exception | None = None,
        inputs: Sequence[TensorSpec] = (_INPUT,),
    ) -> None:
        super().__init__(inputs=inputs)
        self._fails = fails
        self._error = error or RuntimeError("flaky, as it was told to be")

    def before_answer(self, batch: Batch) -> None:
        """Raises, when it should."""
        if self._fails(batch):
            raise self._error


def kind_of(backend: Backend | Callable[[ModelFile], Backend], *, filename: str = "") -> BackendKind:
    """How a runtime is given a backend: one object, or what makes one for each instance."""
    if callable(backend):
        return BackendKind(create=backend, filename=filename)
    made = backend

    def create(_: ModelFile) -> Backend:
        return made

    return BackendKind(create=create, filename=filename)
