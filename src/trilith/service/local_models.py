"""Models in this process, in runtimes on the background loop that are started when the first model is used.

It serves unit tests, and models that are placed with each replica. Calls come from any loop or thread.
"""

from __future__ import annotations

import asyncio
import weakref
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


class _Place:
    """Where a model of some name lies, and who calls that one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.callers: weakref.WeakSet[LocalModel] = weakref.WeakSet()
        self.load: asyncio.Task[ModelHandle] | None = None

    @property
    def loads(self) -> bool:
        """Whether it is loaded, or is being loaded."""
        return self.load is not None and not (self.load.done() and self.load.exception() is not None)


class _SharedRuntimes:
    """The runtimes, and the models that they were asked to load. Everything here happens on the background loop.

    There is one, unless models of one name lie in several places (each of two services may have its own): a runtime
    knows each name once, so each further place of a name is served by a further runtime. A place that nobody calls any
    more makes room for another.
    """

    def __init__(self) -> None:
        self._runtimes: list[Runtime] = []
        self._lock = asyncio.Lock()
        self._places: dict[str, list[_Place]] = {}  # by name; the position is that of the runtime

    async def load(self, caller: LocalModel, name: str, path: Path) -> tuple[Runtime, ModelHandle]:
        """The runtime of that model, with the model ready.

        Raises:
            TrilithError: it cannot be loaded.
        """
        async with self._lock:
            at = self._place(name, path)
            while len(self._runtimes) <= at:
                # They live as long as the process. At exit they cannot be closed: Python ends the threads that they
                # would close with first. Their instance threads wait for work then, and hold nothing to be saved.
                self._runtimes.append(await Runtime().__aenter__())
            runtime, place = self._runtimes[at], self._places[name][at]
            place.callers.add(caller)
            if place.load is None or not place.loads:
                place.load = asyncio.create_task(runtime.load(name, path))
        return runtime, await asyncio.shield(place.load)

    def _place(self, name: str, path: Path) -> int:
        """The position of that place, which is a new one if it was not known."""
        places = self._places.setdefault(name, [])
        found = next((at for at, place in enumerate(places) if place.path == path), None)
        if found is not None:
            return found
        free = next((at for at, place in enumerate(places) if not place.callers), len(places))
        places[free : free + 1] = [_Place(path)]
        return free


_shared: Final[list[_SharedRuntimes]] = []


async def _shared_runtimes() -> _SharedRuntimes:
    if not _shared:  # made on the background loop alone, so no two of them
        _shared.append(_SharedRuntimes())
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
        return await (await _shared_runtimes()).load(self, self._reference, self._path)

    async def _infer(self, inputs: dict[str, Any], context: Context | None) -> dict[str, Array]:
        runtime, _ = await self._ready()
        response = await runtime.infer(InferRequest(model=self._reference, inputs=inputs), context)
        return response.outputs


async def _on_background(work: Coroutine[Any, Any, Result]) -> Result:
    loop = background.loop()
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
