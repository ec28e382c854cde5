"""A `RequestBackend` as a `Backend`, so that the one contract suite holds for both.

check(lambda: Joined(PythonBackend(file, CountedByModels())))
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from trilith.core.model import ModelSignature
from trilith.core.tensor import Array
from trilith.errors import TrilithError
from trilith.runtime import Batch
from trilith.runtime.backends.port import Answered, LifeReport, Outcome, RequestBackend, RequestBatch
from trilith.runtime.signature import complete


class Joined:
    """Sends each batch as one request, from a loop in a thread of its own."""

    concurrent = False
    inline = False

    def __init__(self, backend: RequestBackend) -> None:
        self._backend = backend
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._alive = threading.Event()
        self._thread.start()

    def load(self) -> ModelSignature:
        """Loads, and waits until the instance takes batches."""
        signature = self._backend.load()
        offer = complete(self._backend.completed(), signature)
        self._loop.call_soon_threadsafe(self._backend.attach, self._loop, offer, self._changed_life)
        self._alive.wait()
        return signature

    def enter_thread(self) -> None:
        """A thread needs no preparation."""

    def run(self, batch: Batch) -> Sequence[Array]:
        """Runs the batch as one request; raises what it was answered with."""
        done = threading.Event()
        outcomes: list[Outcome] = []

        def on_done(outcome: Outcome) -> None:
            outcomes.append(outcome)
            done.set()

        self._loop.call_soon_threadsafe(self._backend.begin, _One(batch), on_done)
        done.wait()
        answer = outcomes[0].answers[0]
        if isinstance(answer, TrilithError):
            raise answer
        return _ordered(answer, batch.outputs)

    def close(self) -> None:
        """Closes the backend, and ends the loop."""
        self._backend.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _changed_life(self, report: LifeReport) -> None:
        if report.alive:
            self._alive.set()


class _One(RequestBatch):
    """A batch as one request."""

    def __init__(self, batch: Batch) -> None:
        super().__init__([batch.requests[0]], [batch.inputs], [batch.outputs])

    def is_awaited(self, at: int) -> bool:
        return True


def _ordered(answer: Answered, outputs: Sequence[str]) -> list[Array]:
    return [answer.outputs[name] for name in outputs]
