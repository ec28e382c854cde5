"""Floor 1 as a whole: model repositories in, answers out. Usable in any Python program.

    async with Runtime("models") as runtime:
        response = await runtime.infer(InferRequest(model="ocr-det", inputs={"x": array}))

Rule 1: `__init__` assigns. Work begins in `async with`, and every thread ends with it.
Rule 2: every method is called on the loop that entered the runtime. Only loading and executing happen elsewhere.
Rule 3: a model that cannot be loaded is UNAVAILABLE and says why; the others serve.
Rule 4: a reload serves the old version until the new one is ready, and what is in flight ends where it began.

Start: 1. the loading threads; 2. every model, at the same time; 3. its instances, when it is loaded.
Stop:  1. no new requests; 2. what waits and runs ends, up to the drain time; 3. instances; 4. backends, which must not
       go while an instance runs; 5. the loading threads; one
       that hangs is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

from trilith.core.clock import Clock, MonotonicClock
from trilith.core.context import Context
from trilith.core.load_options import ControlMode
from trilith.core.request import InferRequest, InferResponse
from trilith.errors import NoReadyReplica, TrilithError, UnknownModel
from trilith.runtime.agents.chain import Agents
from trilith.runtime.backends import all_backends
from trilith.runtime.changes import at_start
from trilith.runtime.control import RepositoryControl
from trilith.runtime.handle import ModelHandle
from trilith.runtime.idle_fields import first_response_bounds
from trilith.runtime.keeper import ModelKeeper
from trilith.runtime.load_threads import LoadStatistics, LoadThreads
from trilith.runtime.loading import LoadedVersion, LoadFailed
from trilith.runtime.looks import Looks
from trilith.runtime.model_settings import check_model_settings, check_models_known
from trilith.runtime.naming import in_order, key_of, keys_of, name_of
from trilith.runtime.on_demand import OnDemand, OnLoaded, Waiter
from trilith.runtime.outbox import Outbox
from trilith.runtime.remembered import LoadMemory, RememberedLoad, to_resume
from trilith.runtime.roots import Roots
from trilith.runtime.runtime_config import RuntimeConfig
from trilith.runtime.schedule import LearnedCurve
from trilith.runtime.served import ServedModel
from trilith.runtime.sources.cache import cache_root
from trilith.runtime.statistics import ModelStatistics, StatisticsCollector
from trilith.runtime.steps import LoadRules
from trilith.runtime.ticket import OnDone, Ticket
from trilith.telemetry import Snapshot

_log: Final = logging.getLogger("trilith.runtime")
_LOOKERS: Final = 2  # threads that look for names
_LAST_LOOKS_S: Final = 0.5
_PLANNERS: Final = 4  # threads that read configurations, and fetch from repositories behind URLs


class Runtime:
    """Serves the models of some repositories.

    Args:
        repositories: folders of model folders; a URL such as `s3://bucket/models` is mirrored to the cache.
        config: how to work.

    Attributes:
        repository: what clients may do with the repositories.
        models_ended: set when it has stopped and every model has ended; loads that were given up may still run.
    """

    def __init__(self, *repositories: str | Path, config: RuntimeConfig | None = None) -> None:
        self._config = config or RuntimeConfig()
        self._clock: Clock = MonotonicClock()
        directory = self._config.backend_directory
        self._kinds = all_backends(
            lambda: self.repository, further=self._config.backends, folder=Path(directory) if directory else None
        )
        self._keeper = ModelKeeper(
            roots=Roots(repositories, cache_root() / "repositories", namespaces=self._config.model_namespacing),
            kinds=self._kinds,
            serve=self._serve,
            progress=self._config.progress,
            clock=self._clock,
            rules=LoadRules(
                timeout_s=self._config.load_timeout_s,
                retries=self._config.model_load_retry_count,
                config_name=self._config.config_name,
                gpu_instances_on_cpu=self._config.gpu_instances_on_cpu,
                settings=self._config.model_settings,
                auto_complete=not self._config.disable_auto_complete_config,
                backends=self._config.backend_settings,
                agents=Agents(Path(agents) if (agents := self._config.repoagent_directory) else None),
                keep_statistics=self._config.keep_statistics,
                drain_timeout_s=self._config.drain_timeout_s,
            ),
        )
        self._memory = LoadMemory(self._config.memory if self._config.mode is ControlMode.EXPLICIT else None)
        self.repository = RepositoryControl(
            self._keeper,
            mode=self._config.mode,
            poll_s=self._config.poll_s,
            memory=self._memory,
            on_demand=self._config.on_demand,
        )
        self._has_repositories = bool(repositories)
        self._declared: set[str] = set()
        self._demand: OnDemand | None = None
        self._threads: LoadThreads | None = None
        self._started = False
        self.models_ended = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Loads the models. One that cannot be loaded is UNAVAILABLE; see `models` and `ready`.

        Raises:
            UnknownReference: a repository is no folder, or a model of `load_at_start` or `model_settings` is in none.
            InvalidConfig: `model_settings` say what cannot be set.
        """
        if self._config.model_settings:
            check_model_settings(self._config.model_settings)
        self._loop = asyncio.get_running_loop()
        self._keeper.starting = True
        for told in self._config.backend_settings.idle:
            _log.warning("%s", told)
        config = self._config
        listing = await self.repository.look()
        if self._has_repositories:
            check_models_known(config.model_settings, dict.fromkeys(map(name_of, listing)))
        start = at_start(listing, config.mode, config.load_at_start, on_demand=config.on_demand)
        left = {entry.name: entry for entry in await self._memory.read(start)}
        names = to_resume(start, left.values())
        self._declared.update(names)
        self._keeper.awaited = frozenset(names)
        self._outbox = Outbox(self._loop)
        threads = LoadThreads(self._config.load_threads, self._clock, self._loop)
        planners = LoadThreads(_PLANNERS, self._clock, self._loop)
        lookers = LoadThreads(_LOOKERS, self._clock, self._loop)
        looks = Looks(self._keeper.roots.holds, lookers, timeout_s=config.load_on_demand_wait_s, known=listing)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(threads.close, self._config.drain_timeout_s)
            stack.push_async_callback(planners.close, self._config.drain_timeout_s)
            stack.push_async_callback(lookers.close, _LAST_LOOKS_S)
            stack.push_async_callback(looks.stop)
            stack.callback(self.models_ended.set)
            stack.push_async_callback(self.repository.settled, self._config.drain_timeout_s)
            stack.push_async_callback(self._keeper.stop)
            self._threads = threads
            self._keeper.threads, self._keeper.planners = threads, planners
            self._keeper.open, self._keeper.starting = True, False
            stack.push_async_callback(self.repository.stop)
            self.repository.start()  # before the models are there: one that hangs holds up no other
            done = itertools.count(1)
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self._load_at_start(name, left.get(name), done, len(names)))
            self._started, self._keeper.awaited = True, frozenset()
            if config.on_demand:
                self._demand = OnDemand(
                    self._keeper,
                    looks,
                    most=config.max_loaded_models,
                    wait_s=config.load_on_demand_wait_s,
                    clock=self._clock,
                    loop=self._loop,
                )
                stack.push_async_callback(self._demand.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops in the order that the module names."""
        await self._stack.aclose()

    @property
    def ready(self) -> bool:
        """Whether every model that should serve does: those of the start, and those that the program loaded.

        An unloaded one should not; one that a client or a new folder brings does not count. Without `strict_readiness`
        it is enough that all of them were tried.
        """
        if not self._started or not self._keeper.open:
            return False
        return not self._config.strict_readiness or not self.missing()

    def missing(self) -> list[str]:
        """Names of the models that should serve, and of which a version does not."""
        declared = (handle for handle in self.models() if key_of(handle.namespace, handle.name) in self._declared)
        return list(dict.fromkeys(handle.name for handle in declared if not (handle.ready or handle.unloaded)))

    def models(self) -> list[ModelHandle]:
        """Every version of every model that is known, loaded or not, by name and version."""
        known = self._keeper.models
        return [handle for key in in_order(known) for handle in known[key].handles]

    def model(self, name: str, version: str = "") -> ModelHandle:
        """One version; without one the highest that is ready, else the highest.

        Raises:
            UnknownModel: there is none.
            InvalidInput: several repositories have a model of that name.
            NoReadyReplica: there is none yet: it is about to be loaded.
            Draining: the runtime was not entered yet, and so has loaded nothing.
        """
        model = self._keeper.models.get(self._keeper.key(name))
        if model is None and not self._started:
            self._keeper.check_open()
        handles = model.handles if model is not None else []
        if version:
            handles = [handle for handle in handles if handle.version == version]
        for handle in reversed(handles):
            if handle.ready:
                return handle
        if not handles:
            self._keeper.refuse_unknown(name, version)
        return handles[-1]

    def statistics(self, name: str | None = None) -> list[ModelStatistics]:
        """What the ready versions have done since they were first loaded; those of one model, or of all.

        Raises:
            UnknownModel: there is no model of that name.
            InvalidInput: several repositories have one.
            NoReadyReplica: it is about to be loaded.
        """
        known = self._keeper.models
        key = "" if name is None else self._keeper.key(name)
        if name is not None and key not in known:
            self.model(name)
        keys = in_order(known) if name is None else [key]
        return [served.statistics() for key in keys for served in known[key].served.values()]

    def learned(self, name: str, version: str = "") -> tuple[LearnedCurve, ...]:
        """What a batch costs by its size, by shape, the shape used last at the end; empty where sizes are not learned.

        It is computed when it is asked for, which takes up to some milliseconds.

        Raises:
            UnknownModel, CapacityError: there is no such model or version, or it is not ready.
        """
        served = self._keeper.routes.get((name, version))
        if served is None:
            self._refuse_route(name, version)
        return served.learned()

    def processes(self, name: str, version: str, namespace: str = "") -> tuple[int, ...]:
        """The process ids of a version's instances, for those that have a process each; 0 for one that is starting."""
        model = self._keeper.models.get(key_of(namespace, name))
        served = model.served.get(version) if model is not None else None
        return () if served is None else served.processes()

    def load_statistics(self) -> LoadStatistics:
        """How many loads wait, run, and run on after they were given up."""
        return LoadStatistics() if self._threads is None else self._threads.statistics()

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
        if self._demand is not None:
            while self._demand.absent(request.model):
                await self._demand.load(request.model)
        loop = self._loop if self._started else asyncio.get_running_loop()
        answer: asyncio.Future[InferResponse] = loop.create_future()
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
        served = self._keeper.routes.get((request.model, request.version))
        if self._demand is not None:
            self._demand.used(request.model)
        if served is None:
            self._refuse_route(request.model, request.version)
        return served.submit(request, context, on_done)

    def absent(self, name: str) -> bool:
        """Whether a model is not in memory, and is loaded when somebody wants it; see `RuntimeConfig.on_demand`.

        No disk is asked: whether there is a model of that name is found out when somebody wants it.
        """
        return self._demand is not None and self._demand.absent(name)

    async def obtainable(self, name: str) -> bool:
        """Whether a model is absent, and in a repository.

        Raises:
            CapacityError: the disk does not say so now.
        """
        return self._demand is not None and await self._demand.obtainable(name)

    def seems_obtainable(self, name: str) -> bool:
        """The same by what was seen last, without waiting; the disk is asked for whoever asks next."""
        return self._demand is not None and self._demand.seems_obtainable(name)

    def want(self, name: str, on_loaded: OnLoaded) -> Waiter | None:
        """Begins to load a model that is absent; `on_loaded` is told when it is there, or why it is not.

        Returns:
            who waits for it, who may cancel that; None when `on_loaded` was called already.
        """
        if self._demand is None or not self._demand.absent(name):
            on_loaded(None)
            return None
        return self._demand.want(name, on_loaded)

    async def load(self, name: str, path: Path | None = None) -> ModelHandle:
        """Loads or reloads a model, from `path` (a model folder, or a model file) or from its repository.

        Without `path`, a model that was loaded from one before is loaded from there again.

        Returns:
            the handle of the version that now serves by default.

        Raises:
            UnknownReference: it is in no repository, or has no version to serve.
            SetupError: no version could be loaded. If the model was served before, it still is.
        """
        self._keeper.check_open()
        for key in [name] if path is not None else await self._keys(name):
            self._declared.add(key)
            try:
                await self._keeper.load(key, path)
            except LoadFailed as failed:
                raise failed.causes[0] from None
        return self.model(name)

    async def _keys(self, name: str) -> list[str]:
        """The models that a name stands for, loaded or not."""
        if not self._keeper.roots.namespaces:
            return [name]
        found = await asyncio.to_thread(self._keeper.roots.find)
        return keys_of(name, {*found, *self._keeper.keys(name)}) or [name]

    async def unload(self, name: str) -> None:
        """Stops serving a model, after what is in flight has ended.

        Raises:
            UnknownModel: there is none of that name.
        """
        self._keeper.check_open()
        await asyncio.gather(*(self._keeper.unload(key) for key in self._keeper.keys(name) or [name]))
        if self._demand is not None:
            self._demand.unloaded(name)

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _load_at_start(
        self, key: str, remembered: RememberedLoad | None, done: Iterator[int], total: int
    ) -> None:
        folder = self._memory.folder
        override = remembered.override(folder) if remembered is not None and folder is not None else None
        with contextlib.suppress(Exception):  # the keeper has logged it, and the model's handle says it
            await self._keeper.load(key, override=override)
        self._config.loading(next(done), total, name_of(key))

    def _serve(self, handle: ModelHandle, loaded: LoadedVersion, counted: StatisticsCollector) -> ServedModel:
        counted.distributions.keep(
            summaries=self._config.shown_metrics.summary_latencies,
            first_response_bounds_ms=first_response_bounds(loaded.spec.kept),
        )
        return ServedModel(
            version=handle.version,
            spec=loaded.spec,
            offer=loaded.offer,
            backends=loaded.backends,
            clock=self._clock,
            loop=self._loop,
            outbox=self._outbox,
            statistics=counted,
            on_life=handle.changed_life,
        )

    # -- refusals ----------------------------------------------------------------------------------------------------

    def _refuse_route(self, name: str, version: str) -> NoReturn:
        self._keeper.check_open()
        handle = self.model(name, version)
        if handle.unloaded:
            raise UnknownModel(f"Request for unknown model: '{name}' has no available versions")
        why = handle.public_reason or self._keeper.doing(name)
        raise NoReadyReplica(
            f"Request for unknown model: '{name}' version {handle.version or version} is not at ready state: it is "
            f"{handle.state}{why and f': {why}'}"
        )


def _resolve(answer: asyncio.Future[InferResponse], outcome: InferResponse | TrilithError) -> None:
    if answer.done():
        return
    if isinstance(outcome, InferResponse):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)
