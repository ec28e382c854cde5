"""Dependencies and models in this process: how `Ocr()` in a unit test works, with no server.

Rule: it behaves as the distributed one does. A batched method gets a list, its callers single results; a synchronous
method called from a loop runs in a thread.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import types
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from trilith.core.context import current_context
from trilith.core.foreign import named_error
from trilith.errors import ServiceError
from trilith.service.batching import columns, split_results
from trilith.service.depends import Wiring, check_attributes, wire
from trilith.service.lifecycle import lifecycle_of
from trilith.service.local_batches import LocalBatches
from trilith.service.own_thread import in_own_thread
from trilith.service.ports import ModelCaller, Placement
from trilith.service.spec import MethodSpec, ServiceSpec, no_method
from trilith.service.streams.bridge import as_plain, in_one_thread, put_in
from trilith.service.tracing import Nested, nested


def build(spec: ServiceSpec, wiring: Wiring) -> Any:
    """An instance of a service's class, wired before its constructor runs; a function is its own instance."""
    if spec.is_function or not isinstance(spec.target, type):
        return spec.target
    # The two steps of calling the class, with the wiring between them.
    instance: Any = object.__new__(spec.target)
    wire(instance, wiring)
    instance.__init__()
    check_attributes(instance)
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
        # Weak: a loop that ended takes its queues along.
        self._batches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, LocalBatches]]
        self._batches = weakref.WeakKeyDictionary()
        self._one_batch = {name: threading.Lock() for name in spec.methods}

    def _method(self, name: str) -> MethodSpec:
        try:
            return self._spec.methods[name]
        except KeyError:
            raise no_method(self._spec, name) from None

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result; calls of a batched method that come together are joined."""
        spec = self._method(method)
        run = functools.partial(self._run, spec)
        if spec.options.batch is None:
            with Nested():
                return await run(args, kwargs)
        queues = self._batches.setdefault(asyncio.get_running_loop(), {})
        queue = queues.get(method)
        if queue is None:
            queue = queues[method] = LocalBatches(spec, run)
        return await queue.call((args, kwargs))

    async def stream(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """The items of a method that streams."""
        spec = self._method(method)
        context = nested(current_context.get())  # of the call, between whose steps its caller has its own
        token = current_context.set(context)
        try:
            if spec.asynchronous:
                items = aiter(bound_method(self._instance, spec)(*args, **kwargs))
            else:
                loop = asyncio.get_running_loop()
                args, kwargs = put_in(spec.signature, args, kwargs, lambda given: as_plain(given, loop))
                items = in_one_thread(lambda: self._run_here(spec, args, kwargs))
        finally:
            current_context.reset(token)
        try:
            while True:
                token = current_context.set(context)
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
                except AttributeError as missing:
                    self._explain(missing)
                    raise
                finally:
                    current_context.reset(token)
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()
            if context.folder is not None:
                context.folder.remove()

    def call_here(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a synchronous method, run in this thread."""
        spec = self._method(method)
        with Nested():
            if spec.options.batch is None:
                return self._run_here(spec, args, kwargs)
            positional, named = columns(spec.signature, [(args, kwargs)])
            [result] = split_results(spec.where, self._run_here(spec, tuple(positional), named), 1)
        if isinstance(result, BaseException):
            raise result
        return result

    async def _run(self, spec: MethodSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if spec.asynchronous:
            try:
                return await bound_method(self._instance, spec)(*args, **kwargs)
            except AttributeError as missing:
                self._explain(missing)
                raise
            except SystemExit as wished:
                raise _exited(spec, wished) from wished
        if spec.signature.taken is not None:
            loop = asyncio.get_running_loop()
            args, kwargs = put_in(spec.signature, args, kwargs, lambda given: as_plain(given, loop))
        value, error = await in_own_thread(
            functools.partial(self._outcome, spec, args, kwargs), f"trilith {spec.where}"
        )
        if error is not None:
            raise error
        return value

    def _outcome(self, spec: MethodSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
        """What the method returned or raised: a future of a thread cannot hold every exception."""
        try:
            return self._run_here(spec, args, kwargs), None
        except SystemExit as wished:
            return None, _exited(spec, wished)
        except Exception as error:  # noqa: BLE001  the user's method: whatever it raised belongs to its callers
            return None, error

    def _run_here(self, spec: MethodSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = bound_method(self._instance, spec)
        try:
            if spec.options.batch is None:
                return function(*args, **kwargs)
            with self._one_batch[spec.name]:  # threads may call beside a loop
                return function(*args, **kwargs)
        except AttributeError as missing:
            self._explain(missing)
            raise

    def _explain(self, error: AttributeError) -> None:
        """Says of an attribute that its own instance lacks why it may: nobody entered that one."""
        kind = type(self._instance)
        enters = lifecycle_of(kind)
        if error.obj is self._instance and enters and not getattr(error, "__notes__", ()):
            error.add_note(
                f"{kind.__name__} has {enters}, and in one process what trilith.depends gives is not entered. Enter one"
                f" yourself and put it there: `service.name = entered`, where `name = trilith.depends({kind.__name__})`"
            )


def _exited(spec: MethodSpec, wished: SystemExit) -> ServiceError:
    """As in a replica: a method that wants to end its process fails its call, and does not end its caller's loop."""
    return ServiceError(f"{spec.where} raised {named_error(wished)}")
