"""Loads, reloads and unloads models: what is served, and from what it was loaded.

Rule 1: one load or unload of a model at a time; different models at the same time, as far as there are threads.
Rule 2: a reload serves the old version until the new one is ready, and what is in flight ends where it began. A version
    that has not changed goes on as it is; if only the number of instances has, it is changed in place.
Rule 3: a reload of which any part fails changes nothing.
Rule 4: everything here runs on the loop's thread, but what `loading` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from trilith.errors import Draining, SetupError, TrilithError, UnknownModel, UnknownReference
from trilith.runtime.backends import Backend, BackendKind, ModelFile
from trilith.runtime.changes import Reload, Standing, plan_reload
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import ModelEvent
from trilith.runtime.loading import LoadedVersion, LoadFailed, load_more, load_version
from trilith.runtime.overrides import Override
from trilith.runtime.repository import ModelPlan, plan_model
from trilith.runtime.roots import Roots
from trilith.runtime.served import ServedModel
from trilith.runtime.sources.progress import Progress
from trilith.runtime.spec import ModelSpec

_log: Final = logging.getLogger("trilith.runtime")
_Result = TypeVar("_Result")

Serve = Callable[[ModelHandle, LoadedVersion], ServedModel]
"""Makes what serves a loaded version, says so to its handle, and starts it."""


class Model:
    """One model: its handles, what serves them, and what they were loaded from."""

    __slots__ = ("handles", "lock", "override", "path", "served", "standing")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.path: Path | None = None  # where it was loaded from, when that was not a repository
        self.handles: list[ModelHandle] = []
        self.served: dict[str, ServedModel] = {}
        self.standing: Standing | None = None
        self.override: Override | None = None  # its files must stay while it is served


class ModelKeeper:
    """The models of one runtime.

    Args:
        roots: model repositories.
        kinds: backends by name.
        serve: makes what serves a version.
        progress: told of downloads, from the threads that load.
        drain_timeout_s: how long requests in flight may take when a version stops.

    Attributes:
        models: by name.
        routes: what serves a model's version, "" for the one that serves by default. Replaced, never changed.
        loaders: the threads that load; set by the runtime while it runs.
        open: whether models may be loaded.
    """

    def __init__(
        self,
        *,
        roots: Roots,
        kinds: Mapping[str, BackendKind],
        serve: Serve,
        progress: Progress,
        drain_timeout_s: float,
    ) -> None:
        self.roots = roots
        self.models: dict[str, Model] = {}
        self.routes: dict[tuple[str, str], ServedModel] = {}
        self.loaders: ThreadPoolExecutor | None = None
        self.open = False
        self._kinds = kinds
        self._serve = serve
        self._progress = progress
        self._drain_timeout_s = drain_timeout_s

    async def load(self, name: str, path: Path | None = None, override: Override | None = None) -> list[ModelHandle]:
        """Loads or reloads a model; see `Runtime.load`. The handles of its versions.

        Raises:
            UnknownReference: it is in no repository, or has no version to serve.
            SetupError: it cannot be loaded. If the model was served before, it still is.
        """
        model = self.models.setdefault(name, Model())
        async with model.lock:
            model.path = path or model.path
            try:
                plan, standing = await self._in_thread(self._plan, name, model.path, override)
            except TrilithError as error:
                if not model.served:
                    model.handles[:] = [_unavailable(name, error, model.handles)]
                raise
            await self._load_planned(model, plan, standing)
            await self._forget_override(model, override)
            return model.handles

    async def unload(self, name: str) -> None:
        """Stops serving a model, after what is in flight has ended.

        Raises:
            UnknownModel: there is none of that name.
        """
        model = self.models.get(name)
        if model is None:
            self.refuse_unknown(name, "")
        async with model.lock:
            retired, model.served, model.standing = model.served, {}, None
            self._route(name)
            for handle in model.handles:
                handle.became(ModelEvent.RETIRED)
            await self._retire(retired)
            for handle in model.handles:
                handle.became(ModelEvent.UNLOADED)
            await self._forget_override(model)

    async def stop(self) -> None:
        """Drains and stops everything."""
        self.open = False
        self.routes = {}
        retired = [served for model in self.models.values() for served in model.served.values()]
        for model in self.models.values():
            model.served = {}
            for handle in model.handles:
                handle.became(ModelEvent.STOPPED)
        await asyncio.gather(*(self._retire({served.version: served}) for served in retired))
        for model in self.models.values():
            await self._forget_override(model)

    def refuse_unknown(self, name: str, version: str) -> NoReturn:
        """Says that there is no such model or version.

        Raises:
            UnknownModel: always.
        """
        model = self.models.get(name)
        if model is not None and version:
            known = ", ".join(handle.version for handle in model.handles) or "none"
            raise UnknownModel(
                f"Request for unknown model: '{name}' version {version} is not found; its versions are {known}"
            )
        raise UnknownModel(
            f"Request for unknown model: '{name}' is not found; the models here are "
            f"{', '.join(sorted(self.models)) or 'none'}"
        )

    # -- loading -----------------------------------------------------------------------------------------------------

    def _plan(self, name: str, path: Path | None, override: Override | None) -> tuple[ModelPlan, Standing]:
        if override is not None and override.folder is not None:
            path = override.folder
        if path is None:
            folders = self.roots.fetch(name)
            if not folders:
                raise UnknownReference(
                    f"failed to load '{name}', no such model folder in the repositories {self.roots}"
                )
            if len(folders) > 1:
                raise SetupError(f"model '{name}' stands in more than one repository: {_joined(folders)}")
            path = folders[0]
        config = override.config_of(path) if override is not None else None
        plan = plan_model(name, path, self._kinds, config)
        return plan, plan.standing()

    async def _load_planned(self, model: Model, plan: ModelPlan, standing: Standing) -> None:
        step = plan_reload(model.standing, standing, [handle.version for handle in model.handles if handle.ready])
        if step.resize and not all(model.served[version].resizable for version in step.keep):
            step = Reload(load=tuple(standing.versions))
        files = {str(file.version): file for file in plan.files}
        handles = {version: _handle(model, plan, files[version]) for version in step.load}
        if not model.served:
            model.handles[:] = handles.values()
        results = await asyncio.gather(
            *(self._in_thread(load_version, plan, files[version], self._progress) for version in step.load),
            return_exceptions=True,
        )
        _raise_interrupts(results)
        more, failed_more = await self._more_instances(model, plan, files, step)
        loaded = {v: found for v, found in zip(step.load, results, strict=True) if isinstance(found, LoadedVersion)}
        failures = {v: found for v, found in zip(step.load, results, strict=True) if isinstance(found, Exception)}
        failures |= failed_more
        if not self.open or not (loaded or step.keep) or (failures and model.served):
            for unused in loaded.values():
                unused.close()
            for backend in (backend for backends in more.values() for backend in backends):
                backend.close()
            if not self.open:  # it was stopped meanwhile, and nobody would stop what started now
                raise Draining("the runtime was stopped while the model was loading")
            for version in handles.keys() & failures.keys():
                handles[version].became(ModelEvent.FAILED, str(failures[version]))
            raise LoadFailed(plan.spec.name, failures)
        retired = self._switch(model, plan, step, handles, loaded, more)
        for version, failure in failures.items():
            handles[version].became(ModelEvent.FAILED, str(failure))
            _log.error("a version of model '%s' is unavailable: %s", plan.spec.name, failure)
        model.standing = standing
        await self._retire(retired)

    async def _more_instances(
        self, model: Model, plan: ModelPlan, files: Mapping[str, ModelFile], step: Reload
    ) -> tuple[dict[str, Sequence[Backend]], dict[str, Exception]]:
        """Backends that versions need which go on with more instances than they had."""
        if not step.resize:
            return {}, {}
        missing = {v: model.served[v].missing_backends(plan.spec.instances.count) for v in step.keep}
        results = await asyncio.gather(
            *(self._in_thread(load_more, plan, files[version], count) for version, count in missing.items()),
            return_exceptions=True,
        )
        _raise_interrupts(results)
        made: dict[str, Sequence[Backend]] = {}
        failed: dict[str, Exception] = {}
        for version, result in zip(missing, results, strict=True):
            if isinstance(result, Exception):
                failed[version] = result
            elif not isinstance(result, BaseException):
                made[version] = result
        return made, failed

    def _switch(
        self,
        model: Model,
        plan: ModelPlan,
        step: Reload,
        handles: dict[str, ModelHandle],
        loaded: Mapping[str, LoadedVersion],
        more: Mapping[str, Sequence[Backend]],
    ) -> dict[str, ServedModel]:
        """From here on requests go to what is new; what they went to. One turn of the loop: nobody sees half of it."""
        old = {handle.version: handle for handle in model.handles}
        served: dict[str, ServedModel] = {}
        for version in step.keep:
            served[version], handles[version] = model.served[version], old[version]
            config = handles[version].config
            handles[version].config = replace(config, instances=plan.spec.instances, versions=plan.spec.versions)
            if step.resize:
                served[version].resize(plan.spec, more.get(version, ()))
        for version, found in loaded.items():
            served[version] = self._serve(handles[version], found)
        retired = {version: each for version, each in model.served.items() if served.get(version) is not each}
        model.served = served
        model.handles[:] = [handles[version] for version in sorted(handles, key=int)]
        self._route(plan.spec.name)
        return retired

    def _route(self, name: str) -> None:
        """Lets requests find what serves the model now."""
        routes = {key: served for key, served in self.routes.items() if key[0] != name}
        served_versions = self.models[name].served
        for version, served in served_versions.items():
            routes[name, version] = served
        if served_versions:
            routes[name, ""] = served_versions[max(served_versions, key=int)]
        self.routes = routes

    async def _retire(self, served: dict[str, ServedModel]) -> None:
        for old in served.values():
            await old.drain(self._drain_timeout_s)
            await old.stop(self._drain_timeout_s)

    async def _forget_override(self, model: Model, new: Override | None = None) -> None:
        old, model.override = model.override, new
        if old is not None:
            await asyncio.to_thread(old.close)

    async def _in_thread(self, work: Callable[..., _Result], *arguments: object) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self.loaders, work, *arguments)


def _handle(model: Model, plan: ModelPlan, file: ModelFile) -> ModelHandle:
    filename = file.path.name if file.path is not None else plan.kind.filename
    return ModelHandle(plan.spec, str(file.version), model.handles, platform=plan.kind.platform, filename=filename)


def _unavailable(name: str, error: TrilithError, siblings: list[ModelHandle]) -> ModelHandle:
    handle = ModelHandle(ModelSpec(name=name), "", siblings)
    handle.became(ModelEvent.FAILED, error.message)
    return handle


def _raise_interrupts(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result


def _joined(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths)) or "(none)"
