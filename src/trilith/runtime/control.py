"""What clients may do with the repositories, and what their files do by themselves.

Rule 1: clients load and unload when the mode is `explicit`, and only then.
Rule 2: a folder that cannot be listed changes nothing: that a disk is away does not unload its models.
Rule 3: who asks and goes away does not stop what was begun; a load that waits for a thread was not. The end of the
    runtime does: a load is given up; an unload is waited for.
Rule 4: looking at the files never waits for a load: what changes meanwhile takes the place of what still loads.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from trilith.core.load_options import ControlMode
from trilith.errors import Conflict, InvalidConfig, InvalidInput, SetupError, TrilithError, UnknownModel
from trilith.runtime.changes import Listing, decide
from trilith.runtime.errands import Errands
from trilith.runtime.fingerprint import Fingerprints
from trilith.runtime.keeper import ModelKeeper
from trilith.runtime.life import ModelState
from trilith.runtime.loading import LoadFailed
from trilith.runtime.naming import in_order, keys_of, name_of, shown
from trilith.runtime.overrides import Override
from trilith.runtime.placed import place_of
from trilith.runtime.remembered import LoadMemory
from trilith.runtime.repository import NoVersion
from trilith.runtime.sources.cache import cache_root
from trilith.wire.oip_status import ModelControlDisabled

_log: Final = logging.getLogger("trilith.runtime")


class RepositoryControl:
    """The index, load and unload of one runtime, and its polling.

    Args:
        keeper: loads and unloads.
        mode: who decides what is loaded.
        poll_s: seconds between two looks, when the files decide.
        on_demand: whether models are loaded when requests want them.
        memory: where it is kept what clients do.
    """

    def __init__(
        self,
        keeper: ModelKeeper,
        *,
        mode: ControlMode,
        poll_s: float,
        memory: LoadMemory,
        on_demand: bool = False,
    ) -> None:
        self._lists_all = mode is ControlMode.EXPLICIT or on_demand
        self._keeper = keeper
        self._mode = mode
        self._poll_s = poll_s
        self._memory = memory
        self._fingerprints = Fingerprints()
        self._acted_upon: Listing = {}
        self._errands = Errands()
        self._polling: asyncio.Task[None] | None = None

    async def look(self) -> Listing:
        """The models of the repositories, as they are now; the first look is what is loaded at the start.

        Raises:
            UnknownReference: a repository is no folder.
        """
        self._acted_upon = await asyncio.to_thread(self._listing)
        return self._acted_upon

    def start(self) -> None:
        """Begins to look again and again, when the files decide."""
        if self._mode is ControlMode.POLL:
            self._polling = asyncio.get_running_loop().create_task(self._poll_for_ever())

    async def stop(self) -> None:
        """Ends that."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def settled(self, timeout_s: float) -> bool:
        """Waits for what clients and files have begun, once the keeper has stopped. False when time ran out."""
        return await self._errands.settled(timeout_s)

    # -- clients -----------------------------------------------------------------------------------------------------

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        """Every model version with its state and reason, by name; a model that was never loaded has its name alone.

        Raises:
            UnknownReference: a repository is no folder.
        """
        models = self._keeper.models
        keys = set(models)
        if self._lists_all and not ready_only:
            keys.update(await asyncio.to_thread(self._keeper.roots.find))
        entries: list[dict[str, str]] = []
        for key in in_order(keys):
            name = name_of(key)
            handles = models[key].handles if key in models else []
            doing = self._keeper.doing(key)
            if not handles and not ready_only:
                loading = {"version": "", "state": str(ModelState.LOADING), "reason": doing} if doing else {}
                entries.append({"name": name, **loading})
            entries.extend(
                {
                    "name": name,
                    "version": handle.version,
                    "state": str(handle.state),
                    "reason": handle.public_reason or doing,
                }
                for handle in handles
                if handle.ready or not ready_only
            )
        return entries

    def is_ready(self, name: str, version: str) -> bool:
        """Whether a version of a model may be called, or any of them where `version` is ""."""
        try:
            model = self._keeper.models.get(self._keeper.key(name))
        except InvalidInput:  # the name stands for several
            return False
        handles = model.handles if model is not None else []
        return any(handle.ready and version in ("", handle.version) for handle in handles)

    async def load(self, name: str, parameters: Mapping[str, str | bytes]) -> None:
        """Loads or reloads a model, with what the parameters say instead of its configuration and files.

        Raises:
            InvalidInput: the name or a parameter is wrong, or there is no version to serve.
            ModelControlDisabled: clients do not decide here.
            SetupError: it cannot be loaded; if it was served before, it still is.
            Conflict: it was unloaded meanwhile, or a later load took this one's place.
        """
        self._check(name)
        override = Override.read(name, parameters)
        if not self._keeper.roots.namespaces or (override is not None and override.brings_files):
            await self._load_one(name, override)
            return
        found = await asyncio.to_thread(self._keeper.roots.find)
        keys = keys_of(name, {*found, *self._keeper.keys(name)}) or [name]
        loads = (self._load_one(key, Override.read(name, parameters)) for key in keys)
        results = await asyncio.gather(*loads, return_exceptions=True)
        for error in results:
            if error is not None:
                raise error

    async def _load_one(self, key: str, override: Override | None) -> None:
        task = self._errands.begin(self._load(key, override))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._keeper.queued(key):
                task.cancel()
            raise

    async def host(self, name: str, url: str) -> None:
        """Loads a model by a name of the client's, whatever its configuration calls it.

        Args:
            name: the model's name.
            url: where the one model lies: a folder of this machine, or a URL; see `place_of`.

        Raises:
            InvalidInput: the name is wrong.
            Conflict: there is a model of that name.
            ModelControlDisabled: clients do not decide here.
            SetupError: it cannot be loaded.
        """
        self._check(name)
        known = [self._keeper.models[key] for key in self._keeper.keys(name)]
        if any(model.served or model.attempts or model.retiring for model in known):
            raise Conflict(f"model '{name}' is loaded already; unload it first")
        await self._errands.run(self._host(name, url))

    async def _host(self, name: str, url: str) -> None:
        folder = await asyncio.to_thread(place_of, url, cache_root() / "repositories")
        await self._keeper.load(name, folder, renamed=True, hosted_from=url)

    def hosted(self) -> dict[str, str]:
        """By name the place of each model that `host` loaded and that is there, or whose end is still waited for."""
        return {name_of(key): model.hosted_from for key, model in self._keeper.models.items() if model.hosted}

    async def unload(self, name: str, *, dependents: bool = False) -> None:
        """Unloads a model, after what is in flight has ended.

        `dependents`: the models that it is made of too. No model here is made of others.

        Raises:
            InvalidInput: the name is wrong.
            UnknownModel: no model of that name was loaded.
            ModelControlDisabled: clients do not decide here.
        """
        self._check(name)
        keys = self._keeper.keys(name)
        if not keys:
            if not keys_of(name, await asyncio.to_thread(self._keeper.roots.find)):
                raise UnknownModel(f"failed to unload '{name}', Request for unknown model: '{name}' is not found")
            return
        await asyncio.gather(*(self._errands.run(self._unload(key)) for key in list(keys)))

    def _check(self, name: str) -> None:
        if not name.strip():
            raise InvalidInput("Model name cannot be empty. Please enter a valid name to deploy.")
        if name in (".", "..") or any(character in name for character in "/\\\0") or name.startswith("."):
            raise InvalidInput(f"model name must not contain path traversal characters, got {name[:200]!r}")
        if self._mode is not ControlMode.EXPLICIT:
            raise ModelControlDisabled(self._mode)

    async def _unload(self, key: str) -> None:
        try:
            await self._keeper.unload(key, on_taken=lambda: self._errands.begin(self._note(key)))
        finally:
            await self._note(key)

    async def _note(self, key: str, holds: Callable[[], bool] = lambda: True) -> None:
        await self._memory.note(key, self._keeper.models.get(key), holds=holds)

    async def _load(self, key: str, override: Override | None) -> None:
        note = functools.partial(self._note, key, holds=lambda: self._keeper.open)  # else nobody unloaded what is gone
        try:
            if override is not None:
                await asyncio.to_thread(override.write, self._memory.folder)
            try:
                await self._load_with(key, override, lambda: self._errands.begin(note()))
            finally:
                await note()
        except BaseException:
            model = self._keeper.models.get(key)
            if override is not None and (model is None or model.override is not override):
                await asyncio.to_thread(override.close)
            raise

    async def _load_with(self, key: str, override: Override | None, on_serving: Callable[[], object]) -> None:
        name = name_of(key)
        if override is None or override.folder is None:
            known = self._keeper.models.get(key)
            found = await asyncio.to_thread(self._keeper.roots.find)
            if key not in found and (known is None or known.path is None):
                raise SetupError(
                    f"failed to load '{name}', failed to poll from model repository: there is no folder of that "
                    f"name in {self._keeper.roots}"
                )
        try:
            handles = await self._keeper.load(key, override=override, on_serving=on_serving)
        except LoadFailed as error:
            if override is not None and all(isinstance(cause, InvalidConfig) for cause in error.causes):
                raise InvalidInput(error.message) from error  # what the client's configuration says is not so
            raise
        except NoVersion as error:
            raise InvalidInput(error.message) from error
        except SetupError as error:
            kind = InvalidInput if override is not None and isinstance(error, InvalidConfig) else SetupError
            raise kind(f"failed to load '{name}', failed to poll from model repository: {error.message}") from error
        if any(handle.unloaded or handle.state is ModelState.UNLOADING for handle in handles):
            raise Conflict(f"failed to load '{name}', it was unloaded as soon as it was loaded")
        failed = {handle.version: SetupError(handle.reason) for handle in handles if not handle.ready}
        if failed:
            raise LoadFailed(name, failed)

    # -- files -------------------------------------------------------------------------------------------------------

    async def poll(self) -> None:
        """Looks once, and does what follows from it."""
        begun = await self._begin()
        if begun:
            await asyncio.wait(begun)

    async def _begin(self) -> list[asyncio.Task[None]]:
        """Looks once, and begins what follows from it: a load that hangs holds up no other, nor its own successor."""
        try:
            now = await asyncio.to_thread(self._listing)
        except TrilithError as error:
            _log.error("the repositories cannot be listed, so nothing changes: %s", error.message)
            return []
        except OSError as error:  # folders come and go while they are read
            _log.error("the repositories cannot be listed now, so nothing changes: %s", error)
            return []
        changes = decide(self._acted_upon, now, self._mode)
        self._acted_upon = now
        loads = [self._obey(self._keeper.load(key), f"{shown(key)} cannot be loaded") for key in changes.load]
        unloads = [self._obey(self._keeper.unload(key), f"{shown(key)} cannot be unloaded") for key in changes.unload]
        return [self._errands.begin(work) for work in (*loads, *unloads)]

    async def _poll_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self._begin()
            except Exception:  # noqa: BLE001 - as in `_obey`
                _log.exception("looking at the repositories failed; it is tried again")

    async def _obey(self, work: Coroutine[Any, Any, object], failed: str) -> None:
        try:
            await work
        except TrilithError as error:
            _log.debug("model %s: %s", failed, error.message)  # the keeper has said why a load failed
        except Exception:  # noqa: BLE001 - whatever one model's files cause, the others are looked after
            _log.exception("model %s", failed)

    def _listing(self) -> Listing:
        found = self._keeper.roots.find(whole=self._mode is ControlMode.POLL)
        if self._mode is not ControlMode.POLL:
            return dict.fromkeys(found, "")
        return {key: self._fingerprints.of(folders) for key, folders in found.items()}
