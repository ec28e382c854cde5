"""Models in this process: one runtime for all of them, on the background loop, started when the first model is used.

It serves unit tests, and models that are placed with each replica. Calls come from any loop or thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilith.core.context import Context, current_context
from trilith.core.model import ModelSignature
from trilith.core.request import InferRequest
from trilith.runtime import ModelHandle, Runtime, default_roots, find_model
from trilith.service.bridge import background

if TYPE_CHECKING:
    from trilith.core.tensor import Array

Result = TypeVar("Result")


class _SharedRuntime:
    """The runtime, and the models that it was asked to load. Everything here happens on the background loop."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._lock = asyncio.Lock()
        self._loaded: dict[tuple[str, Path], asyncio.Task[ModelHandle]] = {}

    async def load(self, name: str, path: Path) -> tuple[Runtime, ModelHandle]:
        """The runtime, with that model ready.

        Raises:
            TrilithError: it cannot be loaded.
        """
        async with self._lock:
            if self._runtime is None:
                # It lives as long as the process. At exit it cannot be closed: Python ends the threads that it would
                # close with first. Its instance threads wait for work then, and hold nothing that must be saved.
                self._runtime = await Runtime().__aenter__()
            runtime, key = self._runtime, (name, path)
            if key not in self._loaded or (self._loaded[key].done() and self._loaded[key].exception() is not None):
                self._loaded[key] = asyncio.create_task(runtime.load(name, path))
        return runtime, await asyncio.shield(self._loaded[key])


_shared: Final[list[_SharedRuntime]] = []


async def _shared_runtime() -> _SharedRuntime:
    if not _shared:  # made on the background loop alone, so no two of them
        _shared.append(_SharedRuntime())
    return _shared[0]


class LocalModel:
    """Calls a model of this process's runtime."""

    def __init__(self, reference: str, source_folder: Path, roots: tuple[Path, ...]) -> None:
        self._reference = reference
        self._path = find_model(reference, default_roots(source_folder, roots))

    async def signature(self) -> ModelSignature:
        """What the model takes and gives; loads it first."""
        _, handle = await _on_background(self._ready())
        return ModelSignature(
            inputs=handle.inputs,
            outputs=handle.outputs,
            metadata=handle.metadata,
            max_batch_size=handle.max_batch_size,
        )

    async def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, in the model's order."""
        return await _on_background(self._infer(dict(inputs), current_context.get()))

    async def _ready(self) -> tuple[Runtime, ModelHandle]:
        return await (await _shared_runtime()).load(self._reference, self._path)

    async def _infer(self, inputs: dict[str, Any], context: Context | None) -> dict[str, Array]:
        runtime, _ = await self._ready()
        response = await runtime.infer(InferRequest(model=self._reference, inputs=inputs), context)
        return response.outputs


async def _on_background(work: Coroutine[Any, Any, Result]) -> Result:
    loop = background.loop()
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
