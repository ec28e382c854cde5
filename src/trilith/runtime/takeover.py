"""What was loaded begins to work, before anybody is told of it: a step of which a part cannot begin is undone.

Rule 1: `begin` and `resize` never raise. What cannot begin (a system may have no thread left for it) is a failure like
    one of loading.
Rule 2: what was loaded has one owner at each moment: what serves it, or this. So nothing of it is left behind.
Rule 3: everything here runs on the loop's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from trilith.core.aside import aside
from trilith.core.foreign import named_error
from trilith.errors import SetupError, TrilithError
from trilith.runtime.kept import retire
from trilith.runtime.loading import LoadedVersion
from trilith.runtime.served import ServedModel
from trilith.runtime.spec import ModelSpec
from trilith.runtime.steps import Brought

_log: Final = logging.getLogger("trilith.runtime")


class Takeover:
    """What one step of a load lets begin.

    Args:
        name: the model's name.
        brought: what was loaded.

    Attributes:
        served: what serves the versions that could begin, by version.
        failures: why the others did not.
        retired: what served until now and does no more, by version; the one who lets requests go elsewhere says so.
    """

    def __init__(self, name: str, brought: Brought) -> None:
        self.served: dict[str, ServedModel] = {}
        self.failures: dict[str, Exception] = dict(brought.failures)
        self.retired: dict[str, ServedModel] = {}
        self._name = name
        self._unused_versions = dict(brought.versions)
        self._unused_more = dict(brought.more)
        self._broken: dict[str, ServedModel] = {}
        self._resized: list[tuple[ServedModel, ModelSpec]] = []

    def begin(self, make: Callable[[str, LoadedVersion], ServedModel]) -> None:
        """Starts the versions that were loaded; `make` makes what serves one."""
        for version, loaded in list(self._unused_versions.items()):
            try:
                served = make(version, loaded)
                del self._unused_versions[version]
                self._broken[version] = served
                served.start()
                self.served[version] = self._broken.pop(version)
            except Exception as error:  # noqa: BLE001 - whatever keeps one version from serving, the others go on
                self._failed(version, error)

    def resize(self, spec: ModelSpec, served: Mapping[str, ServedModel]) -> None:
        """Runs as many instances of what serves, by version, as `spec` says."""
        for version, each in served.items():
            try:
                before = each.resize(spec, self._unused_more.pop(version, ()))
                self._resized.append((each, before))
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(version, error)

    async def undo(self, timeout_s: float) -> None:
        """Ends all that began, and frees what did not, because the step is not taken."""
        for served, before in self._resized:
            served.resize(before, ())
        self._broken.update(self.served)
        self._resized, self.served = [], {}
        await self.end(timeout_s)

    async def end(self, timeout_s: float) -> None:
        """Ends what was taken over from, and frees what could not begin.

        Waits up to `timeout_s` seconds for each; what takes longer goes on by itself.
        """
        ending, self._broken = [*self.retired.values(), *self._broken.values()], {}
        await retire(ending, timeout_s)
        unused = Brought(versions=self._unused_versions, more=self._unused_more, failures={})
        self._unused_versions, self._unused_more = {}, {}
        if unused.versions or unused.more:
            await aside(unused.close, name=f"trilith free {self._name}", timeout_s=timeout_s)

    def _failed(self, version: str, error: Exception) -> None:
        if not isinstance(error, TrilithError | RuntimeError):  # a system without threads raises the latter
            _log.error("model '%s' version %s cannot begin to serve", self._name, version, exc_info=error)
        if not isinstance(error, TrilithError):
            told = f"model '{self._name}' version {version}: it is loaded, and cannot begin to serve"
            error = SetupError(f"{told}: {named_error(error)}")
        self.failures[version] = error
