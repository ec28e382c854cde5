"""Loads, reloads and unloads models: what is served, and from what it was loaded.

Rule 1: a model has one load at a time; a later one that wants something else takes its place, one that wants the same
    shares it. Different models load at the same time, as far as there are threads.
Rule 2: an unload never waits for a load: the load is given up, and what it brings later is freed.
Rule 3: a reload serves the old version until the new one is ready, and what is in flight ends where it began. A version
    that has not changed goes on as it is; if only the number of instances has, it is changed in place.
Rule 4: a reload of which any part fails changes nothing.
Rule 5: everything here runs on the loop's thread, but what `loading` does.
Rule 6: loads and unloads are tasks of the keeper. Whoever asked for one may be cancelled: an unload goes on, a load is
    given up unless others want the same, and what served ends in either case. `stop` waits for all of it.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from trilith.core.clock import Clock
from trilith.errors import Cancelled, Conflict, Draining, NoReadyReplica, TrilithError, UnknownModel
from trilith.runtime.attempt import Attempt
from trilith.runtime.backends import BackendKind
from trilith.runtime.changes import Reload, Standing, plan_reload
from trilith.runtime.errands import Errands
from trilith.runtime.handle import ModelHandle
from trilith.runtime.kept import Held, Model, collector, count, forget, new_handle, retire, unavailable_handle
from trilith.runtime.life import ModelEvent, ModelState
from trilith.runtime.load_threads import STOPPED, LoadThreads
from trilith.runtime.loading import LoadedVersion, LoadFailed
from trilith.runtime.naming import ambiguous, keys_of, name_of, shown
from trilith.runtime.overrides import Override
from trilith.runtime.planning import close_plan, plan_load
from trilith.runtime.repository import ModelPlan
from trilith.runtime.roots import Roots
from trilith.runtime.served import ServedModel
from trilith.runtime.sources.progress import Progress
from trilith.runtime.statistics import StatisticsCollector
from trilith.runtime.steps import Brought, LoadRules, load_step, retried
from trilith.runtime.takeover import Takeover
from trilith.runtime.unexpected import unexpected

_log: Final = logging.getLogger("trilith.runtime")

NEWER_FAILED: Final = "a newer state cannot be loaded, and this one serves on"
MOST_GONE: Final = 256
"""Models that clients sent and unloaded, or that could not be loaded, of which it is still told why."""
_GONE: Final = "whoever asked for the load wants it no more"

Serve = Callable[[ModelHandle, LoadedVersion, StatisticsCollector], ServedModel]
"""Makes what serves a loaded version, and will tell its handle of the life of its instances. Does not start it."""


class ModelKeeper:
    """The models of one runtime.

    Args:
        roots: model repositories.
        kinds: backends by name.
        serve: makes what serves a version.
        progress: told of downloads, from the threads that load.
        clock: tells the time.
        rules: how it loads.

    Attributes:
        models: by key; see `naming`.
        routes: what serves a name's version, "" for the one that serves by default. Replaced, never changed.
        threads: the threads that load; set by the runtime while it runs.
        planners: those that look what there is to load, which must not wait for loads; set by the runtime, too.
        open: whether models may be loaded.
        starting: whether they soon may: the repositories are being looked at.
        awaited: keys of models that are loaded at the start, while that goes on.
    """

    threads: LoadThreads
    planners: LoadThreads

    def __init__(
        self,
        *,
        roots: Roots,
        kinds: Mapping[str, BackendKind],
        serve: Serve,
        progress: Progress,
        clock: Clock,
        rules: LoadRules,
    ) -> None:
        self.roots = roots
        self.models: dict[str, Model] = {}
        self.routes: dict[tuple[str, str], ServedModel] = {}
        self.open = self.starting = False
        self.awaited: frozenset[str] = frozenset()
        self._kinds = kinds
        self._serve = serve
        self._progress = progress
        self._clock = clock
        self._rules = rules
        self._numbers = itertools.count()
        self._keys: dict[str, list[str]] = {}  # by name
        self._errands = Errands()

    async def load(
        self,
        key: str,
        path: Path | None = None,
        override: Override | None = None,
        *,
        renamed: bool = False,
        hosted_from: str = "",
        on_serving: Callable[[], object] = lambda: None,
    ) -> list[ModelHandle]:
        """Loads or reloads a model; see `Runtime.load`. The handles of its versions.

        `renamed`: its configuration may say another name.
        `hosted_from`: the client's name of `path`.
        `on_serving`: called when it serves, though what it took over from may not have ended yet.

        Raises:
            UnknownReference: it is in no repository, or has no version to serve.
            SetupError: it cannot be loaded. If the model was served before, it still is.
            Conflict: it was unloaded meanwhile, or a later load took this one's place.
        """
        self.check_open()
        name = name_of(key)
        model = self.models.get(key)
        if model is None:
            self._make_room()
            model = self.models[key] = Model(key)
            self._keys.setdefault(name, []).append(key)
        if path is not None:
            model.path, model.renamed, model.hosted_from = path, renamed, hosted_from
        model.sent = override is not None and override.folder is not None
        attempt = Attempt(next(self._numbers), name, self._clock.now(), on_serving)
        model.attempts.append(attempt)
        self._name_changed(key)
        try:
            await self._errands.run(self._attempt(model, attempt, override))
        except asyncio.CancelledError:
            attempt.leave(Cancelled(f"failed to load '{name}', {_GONE}"))
            if model.loading is not None and model.loading.given_up:
                for handle in model.handles:
                    if handle.state is ModelState.LOADING:
                        handle.became(ModelEvent.FAILED, _GONE)
            raise
        return model.handles

    async def unload(self, key: str, *, on_taken: Callable[[], object] = lambda: None) -> None:
        """Stops serving a model, after what is in flight has ended. One that is being loaded is not waited for.

        `on_taken`: called when nothing new is served, though what is in flight did not end yet.

        Raises:
            UnknownModel: there is none of that name.
        """
        model, name = self.models.get(key), name_of(key)
        if model is None:
            self.refuse_unknown(name, "")
        model.newest = next(self._numbers)
        began_at = self._clock.now()
        for attempt in model.attempts:
            attempt.give_up(Conflict(f"failed to load '{name}', it was unloaded while it was loading"))
        # What serves now is taken at once: a load that comes while it drains brings what no earlier unload means.
        retired, model.served, model.standing = model.served, {}, None
        held = (model.override, model.agents)
        model.override = model.agents = None
        for handle in (handles := list(model.handles)):
            handle.became(ModelEvent.RETIRED)
        self._route(name)
        earlier = set(model.retiring)
        task = self._errands.begin(self._retire(key, retired, handles, held, earlier, began_at))
        model.retiring.add(task)
        task.add_done_callback(model.retiring.discard)
        on_taken()
        await asyncio.shield(task)

    async def stop(self) -> None:
        """Drains and stops everything; gives up what is being loaded. Waits for what was begun before, too."""
        self.open = False
        self.routes = {}
        for threads in (self.planners, self.threads):  # first, or what is given up would make room for what waits
            threads.shut()
        for model in self.models.values():
            for attempt in model.attempts:
                attempt.give_up(Draining(STOPPED))
        for model in self.models.values():
            retired, model.served = model.served, {}
            for handle in model.handles:
                handle.became(ModelEvent.STOPPED)
            self._errands.begin(retire(retired.values(), self._rules.drain_timeout_s))
        await self._errands.settled()
        for model in self.models.values():
            await forget(model.override, model.agents)

    def keys(self, name: str) -> list[str]:
        """Those that a name stands for, unloaded ones among them."""
        return self._keys.get(name, [])

    def key(self, name: str) -> str:
        """The model that a client means by a name, or the name where there is none.

        Raises:
            InvalidInput: it stands for several.
        """
        if not self.roots.namespaces:
            return name
        known = self.keys(name)
        counting = [key for key in known if self.models[key].counts]
        if len(counting) > 1:
            raise ambiguous(name, len(counting))
        return (counting or known or [name_of(name)])[0]

    def busy(self, key: str) -> bool:
        """Whether requests wait or run, or it is being loaded."""
        model = self.models.get(key)
        return model is not None and (bool(model.attempts) or not all(each.idle for each in model.served.values()))

    def queued(self, key: str) -> bool:
        """Whether a model is being loaded, of which nothing has begun: only its folder may have been looked at."""
        model = self.models.get(key)
        return (
            model is not None
            and bool(model.attempts)
            and not any(attempt.serves or attempt.begun_in(self.threads) for attempt in model.attempts)
        )

    def doing(self, key: str) -> str:
        """What is being done to load a model, and for how long; "" for nothing."""
        model = self.models.get(key)
        attempts = [] if model is None else [model.loading] if model.loading is not None else model.attempts
        return attempts[0].doing(self._clock.now()) if attempts else ""

    def refuse_unknown(self, name: str, version: str) -> NoReturn:
        """Says that there is no such model or version, or none yet.

        Raises:
            NoReadyReplica: it is being looked at, for the first time.
            UnknownModel: otherwise.
        """
        key = self.key(name)
        model = self.models.get(key)
        if (
            key in self.awaited
            or (self.roots.namespaces and keys_of(name, self.awaited))
            or (model is not None and model.attempts)
        ) and not (model and model.handles):
            raise NoReadyReplica(f"Request for unknown model: '{name}' is not at ready state: it is about to be loaded")
        if model is not None and version:
            known = ", ".join(handle.version for handle in model.handles) or "none"
            raise UnknownModel(
                f"Request for unknown model: '{name}' version {version} is not found; its versions are {known}"
            )
        raise UnknownModel(
            f"Request for unknown model: '{name}' is not found; the models here are "
            f"{', '.join(sorted({name_of(known) for known, each in self.models.items() if each.handles})) or 'none'}"
        )

    def check_open(self) -> None:
        """Nothing, while models may be loaded and used.

        Raises:
            NoReadyReplica: they soon may.
            Draining: the runtime was not entered, or was left.
        """
        if self.starting:
            raise NoReadyReplica("the server is starting, and looks for its models; try again in a moment")
        if not self.open:
            raise Draining("the runtime is not running: enter it with `async with Runtime(...)`")

    def _make_room(self) -> None:
        """Forgets the first of those models that clients sent and that are gone: they may send ever new names."""
        gone = [key for key, model in self.models.items() if model.gone]
        for key in gone[: len(gone) - MOST_GONE + 1] if len(gone) >= MOST_GONE else ():
            del self.models[key]
            self._keys[name_of(key)].remove(key)
            if not self._keys[name_of(key)]:
                del self._keys[name_of(key)]

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _attempt(self, model: Model, attempt: Attempt, override: Override | None) -> None:
        error: BaseException | None = None
        try:
            await self._load(model, attempt, override)
        except BaseException as raised:
            error = raised
            self._tell_failure(model, attempt, raised, of_files=override is None)
            raise
        finally:
            model.attempts.remove(attempt)
            self._name_changed(model.key)
            model.loading = None if model.loading is attempt else model.loading
            attempt.end(error)

    async def _load(self, model: Model, attempt: Attempt, override: Override | None) -> None:
        name = name_of(model.key)
        try:
            look = functools.partial(
                attempt.run,
                self.planners,
                functools.partial(
                    plan_load,
                    self.roots,
                    self._kinds,
                    model.key,
                    model.path,
                    override,
                    self._rules,
                    renamed=model.renamed,
                ),
                what=f"model '{name}'",
                timeout_s=self._rules.timeout_s,
                discard=close_plan,
            )
            plan, standing = await retried(attempt, self._rules, look)
        except TrilithError as error:
            if not model.served and not attempt.given_up and model.loading is None and attempt.number > model.newest:
                model.handles[:] = [unavailable_handle(model.key, error, model.handles)]
            raise
        try:
            await self._load_looked(model, plan, standing, attempt, override)
        finally:
            if model.agents is not plan.agents:
                await forget(plan.agents)

    async def _load_looked(
        self, model: Model, plan: ModelPlan, standing: Standing, attempt: Attempt, override: Override | None
    ) -> None:
        attempt.standing = standing
        same, name = model.loading, name_of(model.key)
        if same is not None and same.standing == standing:
            await attempt.join(same)
            await forget(override)  # it says what that of the other says
            return
        later = Conflict(f"failed to load '{name}', a later load took this one's place")
        if attempt.number < model.newest:
            raise later
        if same is not None:
            same.give_up(later)
        model.loading, model.newest = attempt, attempt.number
        takeover = await self._load_planned(model, plan, attempt, standing)
        model.loading = None
        old, model.override = (model.override, model.agents), override
        model.agents = plan.agents
        attempt.took_over()
        await takeover.end(self._rules.drain_timeout_s)
        await forget(*old)

    async def _load_planned(self, model: Model, plan: ModelPlan, attempt: Attempt, standing: Standing) -> Takeover:
        """Loads what must be, and lets it take over. Nothing else happens between that and the return."""
        step = plan_reload(model.standing, standing, [handle.version for handle in model.handles if handle.ready])
        if step.resize and not all(model.served[version].resizable for version in step.keep):
            step = Reload(load=tuple(standing.versions))
        files = {str(file.version): file for file in plan.files}
        handles = {version: new_handle(model, plan, files[version]) for version in step.load}
        if not model.served:
            model.handles[:] = handles.values()
        count = plan.spec.instances.count
        brought = await load_step(
            self.threads,
            attempt,
            plan,
            step,
            missing={v: model.served[v].missing_backends(count) for v in step.keep} if step.resize else {},
            progress=self._progress,
            rules=self._rules,
        )
        takeover = Takeover(plan.spec.name, brought)
        if not attempt.given_up and not (brought.failures and model.served):
            self._begin(model, plan, step, handles, takeover)
        failures = takeover.failures
        if attempt.given_up or not (takeover.served or step.keep) or (failures and model.served):
            await takeover.undo(self._rules.drain_timeout_s)
            attempt.check()
            for version in handles.keys() & failures.keys():
                handles[version].became(ModelEvent.FAILED, str(failures[version]))
            raise LoadFailed(plan.spec.name, failures)
        self._switch(model, plan, step, handles, brought, takeover)
        for version, failure in failures.items():
            handles[version].became(ModelEvent.FAILED, str(failure))
            _log.error("a version of model %s is unavailable: %s", shown(model.key), failure)
        model.standing = standing
        for version in takeover.served:
            again, load_s = " again" if version in takeover.retired else "", brought.versions[version].load_s
            _log.info("model %s version %s is loaded%s, in %.2f s", shown(model.key), version, again, load_s)
        for version in set(takeover.retired) - set(model.served):
            _log.info("model %s version %s serves no more", shown(model.key), version)
        return takeover

    def _begin(
        self, model: Model, plan: ModelPlan, step: Reload, handles: dict[str, ModelHandle], takeover: Takeover
    ) -> None:
        def make(version: str, loaded: LoadedVersion) -> ServedModel:
            counted = collector(model, version, keep=self._rules.keep_statistics)
            return self._serve(handles[version], loaded, counted)

        takeover.begin(make)
        if step.resize:
            takeover.resize(plan.spec, {version: model.served[version] for version in step.keep})

    def _tell_failure(self, model: Model, attempt: Attempt, error: BaseException, *, of_files: bool) -> None:
        """Logs why a load failed; what serves on says it too, when the files are why and not what a client sent."""
        if not isinstance(error, Exception) or isinstance(error, Cancelled | Conflict | Draining):
            return
        if not isinstance(error, TrilithError):
            told = unexpected(f"loading model {shown(model.key)}", error)
            for handle in model.handles:
                if handle.state is ModelState.LOADING and model.loading in (None, attempt):
                    handle.became(ModelEvent.FAILED, told.message)
            return
        state = "cannot be loaded again, and serves on as it was" if model.served else "is unavailable"
        seconds = self._clock.now() - attempt.began_at
        _log.error("model %s %s, after %.2f s: %s", shown(model.key), state, seconds, error.message)
        if of_files:
            for handle in model.handles:
                if handle.ready:
                    handle.reason = f"{NEWER_FAILED}: {error.message}"

    def _switch(
        self,
        model: Model,
        plan: ModelPlan,
        step: Reload,
        handles: dict[str, ModelHandle],
        brought: Brought,
        takeover: Takeover,
    ) -> None:
        """From here on requests go to what is new. One turn of the loop: nobody sees half of it."""
        old = {handle.version: handle for handle in model.handles}
        served = dict(takeover.served)
        for version in step.keep:
            served[version], handles[version] = model.served[version], old[version]
            handles[version].reason = "" if handles[version].ready else handles[version].reason
            config = handles[version].config
            handles[version].config = replace(config, instances=plan.spec.instances, versions=plan.spec.versions)
        for version, each in takeover.served.items():
            count(model, version, each.collector)
            handles[version].became_ready(brought.versions[version])
            handles[version].ask_ready = each.says_ready if each.asks_ready else None
            each.tell_death()
        takeover.retired = {v: each for v, each in model.served.items() if served.get(v) is not each}
        model.served = served
        model.handles[:] = [handles[version] for version in sorted(handles, key=int)]
        self._route(name_of(model.key))

    def _route(self, name: str) -> None:
        """Lets requests find what serves by a name now."""
        routes = {at: served for at, served in self.routes.items() if at[0] != name}
        models = [self.models[key] for key in self.keys(name)]
        if self.roots.namespaces:
            models = [model for model in models if model.counts]
        served_versions = models[0].served if len(models) == 1 else {}
        for version, served in served_versions.items():
            routes[name, version] = served
        if served_versions:
            routes[name, ""] = served_versions[max(served_versions, key=int)]
        self.routes = routes

    def _name_changed(self, key: str) -> None:
        """Follows what a name stands for: whether a model of it counts has changed."""
        if self.roots.namespaces:
            self._route(name_of(key))

    # -- the end of what served --------------------------------------------------------------------------------------

    async def _retire(
        self,
        key: str,
        retired: Mapping[str, ServedModel],
        handles: list[ModelHandle],
        held: tuple[Held | None, ...],
        earlier: set[asyncio.Task[None]],
        began_at: float,
    ) -> None:
        await retire(retired.values(), self._rules.drain_timeout_s)
        await forget(*held)
        if earlier:  # unloads that took what is in flight
            await asyncio.wait(earlier)
        for handle in handles:
            handle.became(ModelEvent.UNLOADED)
        if retired:
            seconds = self._clock.now() - began_at
            _log.info("model %s is unloaded (version %s), in %.2f s", shown(key), ", ".join(retired), seconds)
