"""Dependencies and models in this process: how `Ocr()` in a unit test works, with no server.

Rule: it behaves as the distributed one does. A batched method gets a list, its callers single results; a synchronous
method called from a loop runs in a thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import types
import weakref
from collections import deque
from pathlib import Path
from typing import Any

from trilith.errors import NotFound
from trilith.service.batching import Item, columns, split_results
from trilith.service.depends import Wiring, wire
from trilith.service.ports import ModelCaller, Placement
from trilith.service.spec import MethodSpec, ServiceSpec


def build(spec: ServiceSpec, wiring: Wiring) -> Any:
    """An instance of a service's class, wired before its constructor runs; a function is its own instance."""
    if spec.is_function or not isinstance(spec.target, type):
        return spec.target
    # The two steps of calling the class, with the wiring between them.
    instance: Any = object.__new__(spec.target)
    wire(instance, wiring)
    instance.__init__()
    return instance


def source_folder(target: Any) -> Path:
    """The folder of the file that declares a class or function; the current one when there is no file."""
    file = getattr(sys.modules.get(target.__module__), "__file__", None)
    return Path.cwd() if file is None else Path(file).resolve().parent


def bound_method(instance: Any, method: MethodSpec) -> Any:
    """The method of that instance, a batched one as it is defined; a function service is its own method."""
    if method.service.is_function:
        return instance
    if method.options.batch is not None:
        return types.MethodType(method.function, instance)
    return getattr(instance, method.name)


class InProcessResolver:
    """Builds what services refer to, once each, in this process."""

    def __init__(
        self,
        *model_roots: str | Path,
        source_folder: str | Path = ".",
        home: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Takes folders of models, the folder of the user's program, and the loop for calls (None: any)."""
        self._model_roots = tuple(Path(root) for root in model_roots)
        self._source_folder = Path(source_folder)
        self._home = home
        self._callers: dict[ServiceSpec, InProcessCaller] = {}
        self._lock = threading.RLock()  # re-entered when a constructor uses its own dependencies

    def service(self, spec: ServiceSpec) -> InProcessCaller:
        """The caller of that service's one instance, built when first asked for."""
        with self._lock:
            if spec not in self._callers:
                self._callers[spec] = InProcessCaller(spec, build(spec, Wiring(self, self._home)))
            return self._callers[spec]

    def model(self, reference: str, placement: Placement) -> ModelCaller:
        """The caller of a model in this process's own runtime."""
        from trilith.service.local_models import LocalModel  # the runtime loads numpy

        return LocalModel(reference, self._source_folder, self._model_roots)


class InProcessCaller:
    """Calls one instance."""

    def __init__(self, spec: ServiceSpec, instance: Any) -> None:
        self._spec = spec
        self._instance = instance
        self._batchers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Batcher]]
        self._batchers = weakref.WeakKeyDictionary()

    def _method(self, name: str) -> MethodSpec:
        try:
            return self._spec.methods[name]
        except KeyError:
            raise NotFound(f"service {self._spec.name} has no method {name!r}") from None

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result; calls of a batched method that come together are joined."""
        spec = self._method(method)
        if spec.options.batch is None:
            return await _invoke(bound_method(self._instance, spec), spec, args, kwargs)
        batchers = self._batchers.setdefault(asyncio.get_running_loop(), {})
        batcher = batchers.get(method)
        if batcher is None:
            batcher = batchers[method] = _Batcher(bound_method(self._instance, spec), spec)
        return await batcher.call((args, kwargs))

    def call_here(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a synchronous method, run in this thread."""
        spec = self._method(method)
        function = bound_method(self._instance, spec)
        if spec.options.batch is None:
            return function(*args, **kwargs)
        positional, named = columns(spec.signature, [(args, kwargs)])
        [result] = split_results(spec.where, function(*positional, **named), 1)
        if isinstance(result, Exception):
            raise result
        return result


async def _invoke(function: Any, spec: MethodSpec, args: Any, kwargs: Any) -> Any:
    if spec.asynchronous:
        return await function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


class _Batcher:
    """One method's waiting calls, on one loop. One batch runs at a time; what comes meanwhile is the next."""

    def __init__(self, function: Any, spec: MethodSpec) -> None:
        self._function = function
        self._spec = spec
        self._waiting: deque[tuple[Item, asyncio.Future[Any]]] = deque()
        self._runner: asyncio.Task[None] | None = None

    async def call(self, item: Item) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((item, future))
        if self._runner is None:
            # The task starts after the calls that were made in this turn of the loop: they are its first batch.
            self._runner = loop.create_task(self._run())
        return await future

    async def _run(self) -> None:
        batch = self._spec.options.batch
        assert batch is not None
        try:
            while self._waiting:
                if batch.max_wait_ms and len(self._waiting) < batch.max_size:
                    await asyncio.sleep(batch.max_wait_ms / 1e3)
                taken = [self._waiting.popleft() for _ in range(min(batch.max_size, len(self._waiting)))]
                live = [(item, future) for item, future in taken if not future.done()]
                if live:
                    await self._answer([item for item, _ in live], [future for _, future in live])
        finally:
            self._runner = None

    async def _answer(self, items: list[Item], futures: list[asyncio.Future[Any]]) -> None:
        try:
            positional, named = columns(self._spec.signature, items)
            answered = await _invoke(self._function, self._spec, tuple(positional), named)
            results = split_results(self._spec.where, answered, len(items))
        except Exception as error:  # noqa: BLE001  the user's method: whatever it raised belongs to its callers
            results = [error] * len(items)
        for future, result in zip(futures, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
