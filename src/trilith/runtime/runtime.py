"""Floor 1 as a whole: model repositories in, answers out. Usable in any Python program.

    async with Runtime("models") as runtime:
        response = await runtime.infer(InferRequest(model="ocr-det", inputs={"x": array}))

Rule 1: `__init__` assigns. Work begins in `async with`, and every thread ends with it.
Rule 2: every method is called on the loop that entered the runtime. Only loading and executing happen elsewhere.
Rule 3: a model that cannot be loaded is UNAVAILABLE and says why; the others serve.
Rule 4: a reload serves the old version until the new one is ready, and what is in flight ends where it began.

Start: 1. the loading threads; 2. every model, at the same time; 3. its instances, when it is loaded.
Stop:  1. no new requests; 2. what waits and runs ends, up to the drain time; 3. instances; 4. backends, which must not
       go while an instance runs; 5. the loading threads.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

from trilith.core.clock import Clock, MonotonicClock
from trilith.core.context import Context
from trilith.core.request import InferRequest, InferResponse
from trilith.errors import Draining, NoReadyReplica, SetupError, TrilithError, UnknownModel, UnknownReference
from trilith.runtime.backends import BackendKind, builtin_backends
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import ModelEvent
from trilith.runtime.loading import LoadedVersion, load_version
from trilith.runtime.outbox import Outbox
from trilith.runtime.repository import ModelPlan, find_models, plan_model
from trilith.runtime.served import ServedModel
from trilith.runtime.sources.progress import Progress, silent
from trilith.runtime.spec import ModelSpec
from trilith.runtime.statistics import ModelStatistics
from trilith.runtime.ticket import OnDone, Ticket
from trilith.telemetry import Snapshot

_log: Final = logging.getLogger("trilith.runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """How a runtime works.

    Attributes:
        backends: further backends by name; they go before those that come with Trilith.
        load_at_start: names of the models to load when the runtime starts; None for all.
        load_threads: how many models load at the same time.
        drain_timeout_s: how long requests in flight may take when a model or the runtime stops.
        progress: told of downloads, from the threads that load.
    """

    backends: dict[str, BackendKind] = field(default_factory=dict)
    load_at_start: tuple[str, ...] | None = None
    load_threads: int = 2
    drain_timeout_s: float = 30.0
    progress: Progress = silent


class _Model:
    """One model: its handles and what serves them."""

    __slots__ = ("handles", "lock", "path", "served")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # one load or unload of this model at a time
        self.path: Path | None = None  # where it was loaded from, when that was not a repository
        self.handles: list[ModelHandle] = []
        self.served: dict[str, ServedModel] = {}


class Runtime:
    """Serves the models of some repositories.

    Args:
        repositories: folders of model folders.
        config: how to work.
        clock: tells the time.
    """

    def __init__(
        self, *repositories: str | Path, config: RuntimeConfig | None = None, clock: Clock | None = None
    ) -> None:
        self._roots = [Path(root) for root in repositories]
        self._config = config or RuntimeConfig()
        self._clock: Clock = clock or MonotonicClock()
        self._kinds = {**builtin_backends(), **self._config.backends}
        self._models: dict[str, _Model] = {}
        self._routes: dict[tuple[str, str], ServedModel] = {}
        self._stack = AsyncExitStack()
        self._open = False

    async def __aenter__(self) -> Self:
        """Loads the models. One that cannot be loaded is UNAVAILABLE; see `models` and `ready`.

        Raises:
            UnknownReference: a repository is no folder, or a model of `load_at_start` is in none.
        """
        self._loop = asyncio.get_running_loop()
        found = find_models(self._roots)
        names = list(found) if self._config.load_at_start is None else list(self._config.load_at_start)
        for name in names:
            if name not in found:
                raise UnknownReference(f"model '{name}' is in none of the repositories {_joined(self._roots)}")
        self._outbox = Outbox(self._loop)
        self._loaders = ThreadPoolExecutor(self._config.load_threads, thread_name_prefix="trilith-load")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self._loaders.shutdown, wait=True, cancel_futures=True)
            stack.push_async_callback(self._stop_models)
            self._open = True
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self._load_at_start(name))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops in the order that the module names."""
        await self._stack.aclose()

    @property
    def ready(self) -> bool:
        """Whether every model that should serve does. An unloaded one should not."""
        return self._open and all(handle.ready or handle.unloaded for handle in self.models())

    def models(self) -> list[ModelHandle]:
        """Every version of every model that is known, loaded or not, by name and version."""
        return [handle for _, model in sorted(self._models.items()) for handle in model.handles]

    def model(self, name: str, version: str = "") -> ModelHandle:
        """One version; without one the highest that is ready, else the highest.

        Raises:
            UnknownModel: there is none.
        """
        model = self._models.get(name)
        handles = model.handles if model is not None else []
        if version:
            handles = [handle for handle in handles if handle.version == version]
        ready = [handle for handle in handles if handle.ready]
        if not handles:
            self._refuse_unknown(name, version)
        return (ready or handles)[-1]

    def statistics(self, name: str | None = None) -> list[ModelStatistics]:
        """What the ready versions have done since they were loaded; those of one model, or of all.

        Raises:
            UnknownModel: there is no model of that name.
        """
        if name is not None and name not in self._models:
            self._refuse_unknown(name, "")
        models = self._models if name is None else {name: self._models[name]}
        return [served.statistics() for _, model in sorted(models.items()) for served in model.served.values()]

    def model_metrics(self) -> list[Snapshot]:
        """What models count for themselves."""
        return [snapshot for kind in self._kinds.values() if kind.metrics is not None for snapshot in kind.metrics()]

    async def infer(self, request: InferRequest, context: Context | None = None) -> InferResponse:
        """Runs one request. Cancelling the caller takes the request back.

        Raises:
            InvalidInput: it does not fit the model.
            UnknownModel: there is no such model or version.
            CapacityError: it cannot be run now.
            DeadlineExceeded: its time passed.
            ModelError: the model failed.
        """
        answer: asyncio.Future[InferResponse] = asyncio.get_running_loop().create_future()
        ticket = self.submit(request, context, functools.partial(_resolve, answer))
        try:
            return await answer
        finally:
            ticket.cancel()  # does nothing when it is done

    def submit(self, request: InferRequest, context: Context | None, on_done: OnDone) -> Ticket:
        """Checks a request and lets it wait: the fast path, without a task or a future.

        `on_done` is called once with what became of it, never before this returns.

        Raises:
            InvalidInput, UnknownModel, CapacityError, DeadlineExceeded: at once, when it is refused; then `on_done` is
                not called.
        """
        served = self._routes.get((request.model, request.version))
        if served is None:
            self._refuse_route(request.model, request.version)
        return served.submit(request, context, on_done)

    async def load(self, name: str, path: Path | None = None) -> ModelHandle:
        """Loads or reloads a model, from `path` (a model folder, or a model file) or from its repository.

        Without `path`, a model that was loaded from one before is loaded from there again.

        Returns:
            the handle of the version that now serves by default.

        Raises:
            UnknownReference: it is in no repository, or has no version to serve.
            SetupError: no version could be loaded. If the model was served before, it still is.
        """
        self._check_open()
        model = self._models.setdefault(name, _Model())
        async with model.lock:
            model.path = path or model.path
            try:
                plan = await self._loop.run_in_executor(self._loaders, self._plan, name, model.path)
            except TrilithError as error:
                if not model.served:
                    model.handles = [_unavailable(name, error)]
                raise
            return await self._load_planned(model, plan)

    async def unload(self, name: str) -> None:
        """Stops serving a model, after what is in flight has ended.

        Raises:
            UnknownModel: there is none of that name.
        """
        self._check_open()
        model = self._models.get(name)
        if model is None:
            self._refuse_unknown(name, "")
        async with model.lock:
            retired, model.served = model.served, {}
            self._route(name)
            for handle in model.handles:
                handle.became(ModelEvent.RETIRED)
            await self._retire(retired)
            for handle in model.handles:
                handle.became(ModelEvent.UNLOADED)

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _load_at_start(self, name: str) -> None:
        try:
            await self.load(name)
        except TrilithError as error:
            _log.error("model '%s' is unavailable: %s", name, error.message)

    def _plan(self, name: str, path: Path | None) -> ModelPlan:
        if path is None:
            folders = find_models(self._roots).get(name, [])
            if not folders:
                raise UnknownReference(
                    f"failed to load '{name}', no such model folder in the repositories {_joined(self._roots)}"
                )
            if len(folders) > 1:
                raise SetupError(f"model '{name}' stands in more than one repository: {_joined(folders)}")
            path = folders[0]
        return plan_model(name, path, self._kinds)

    async def _load_planned(self, model: _Model, plan: ModelPlan) -> ModelHandle:
        handles: list[ModelHandle] = []
        for file in plan.files:
            filename = file.path.name if file.path is not None else plan.kind.filename
            handle = ModelHandle(plan.spec, str(file.version), handles, platform=plan.kind.platform, filename=filename)
            handles.append(handle)
        if not model.served:
            model.handles = handles
        results = await asyncio.gather(
            *(
                self._loop.run_in_executor(self._loaders, load_version, plan, file, self._config.progress)
                for file in plan.files
            ),
            return_exceptions=True,
        )
        if not self._open:  # it was stopped meanwhile, and nobody would stop what started now
            for result in results:
                if isinstance(result, LoadedVersion):
                    result.close()
            raise Draining("the runtime was stopped while the model was loading")
        served: dict[str, ServedModel] = {}
        failures: list[BaseException] = []
        for handle, result in zip(handles, results, strict=True):
            if isinstance(result, BaseException):
                failures.append(result)
                handle.became(ModelEvent.FAILED, str(result))
            else:
                served[handle.version] = self._serve(handle, result)
        if not served:
            raise _load_error(failures)
        retired, model.served, model.handles = model.served, served, handles
        self._route(plan.spec.name)
        await self._retire(retired)
        for failure in failures:
            _log.error("a version of model '%s' is unavailable: %s", plan.spec.name, failure)
        return self.model(plan.spec.name)

    def _serve(self, handle: ModelHandle, loaded: LoadedVersion) -> ServedModel:
        served = ServedModel(
            version=handle.version,
            spec=loaded.spec,
            offer=loaded.offer,
            backends=loaded.backends,
            clock=self._clock,
            loop=self._loop,
            outbox=self._outbox,
            on_life=handle.changed_life,
        )
        handle.became_ready(loaded)
        served.start()
        return served

    def _route(self, name: str) -> None:
        """Lets requests find what serves the model now."""
        routes = {key: served for key, served in self._routes.items() if key[0] != name}
        served_versions = self._models[name].served
        for version, served in served_versions.items():
            routes[name, version] = served
        if served_versions:
            routes[name, ""] = served_versions[max(served_versions, key=int)]
        self._routes = routes

    async def _retire(self, served: dict[str, ServedModel]) -> None:
        for old in served.values():
            await old.drain(self._config.drain_timeout_s)
            await old.stop(self._config.drain_timeout_s)

    async def _stop_models(self) -> None:
        self._open = False
        self._routes = {}
        retired = [served for model in self._models.values() for served in model.served.values()]
        for model in self._models.values():
            model.served = {}
            for handle in model.handles:
                handle.became(ModelEvent.STOPPED)
        await asyncio.gather(*(self._retire({served.version: served}) for served in retired))

    # -- refusals ----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise Draining("the runtime is not running: enter it with `async with Runtime(...)`")

    def _refuse_route(self, name: str, version: str) -> NoReturn:
        self._check_open()
        handle = self.model(name, version)
        if handle.unloaded:
            raise UnknownModel(f"Request for unknown model: '{name}' has no available versions")
        raise NoReadyReplica(
            f"Request for unknown model: '{name}' version {handle.version or version} is not at ready state: it is "
            f"{handle.state}; the server's log says why"
        )

    def _refuse_unknown(self, name: str, version: str) -> NoReturn:
        model = self._models.get(name)
        if model is not None and version:
            known = ", ".join(handle.version for handle in model.handles) or "none"
            raise UnknownModel(
                f"Request for unknown model: '{name}' version {version} is not found; its versions are {known}"
            )
        raise UnknownModel(
            f"Request for unknown model: '{name}' is not found; the models here are "
            f"{', '.join(sorted(self._models)) or 'none'}"
        )


def _resolve(answer: asyncio.Future[InferResponse], outcome: InferResponse | TrilithError) -> None:
    if answer.done():
        return
    if isinstance(outcome, InferResponse):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)


def _unavailable(name: str, error: TrilithError) -> ModelHandle:
    handles: list[ModelHandle] = []
    handle = ModelHandle(ModelSpec(name=name), "", handles)
    handle.became(ModelEvent.FAILED, error.message)
    handles.append(handle)
    return handle


def _load_error(failures: list[BaseException]) -> BaseException:
    for failure in failures:
        if not isinstance(failure, Exception):
            return failure
    return failures[0]


def _joined(paths: list[Path]) -> str:
    return ", ".join(map(str, paths)) or "(none)"
