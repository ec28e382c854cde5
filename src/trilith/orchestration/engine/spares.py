"""The processes that the agent keeps in advance for the next change of the source. Doer.

Rule: one for each service, at most four: what a change needs before it serves. More replicas than that start as always.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from trilith.core.log_options import LogOptions
from trilith.errors import SetupError
from trilith.orchestration.engine.launch import SpareArguments, WorkerArguments
from trilith.orchestration.engine.process import ChildProcess

_MODULE: Final = "trilith.orchestration.engine.spare"
_MOST: Final = 4
_GRACE_S: Final = 1.0

Bounds = dict[str, str]
"""Variables that bound the threads of native libraries: they hold from a process's first moment."""


class Spares:
    """Worker processes that wait. `name` is for people who look at the processes of a machine."""

    def __init__(self, name: str, log: LogOptions) -> None:
        self._name = name
        self._log = log
        self._waiting: list[tuple[Bounds, ChildProcess]] = []

    async def keep(self, wanted: Sequence[Bounds], libraries: list[str]) -> None:
        """Has one for each of `wanted`, which have imported `libraries`; those of before end.

        One that cannot be started is not there: nobody relies on it.
        """
        await self.end()
        arguments = msgspec.json.encode(SpareArguments(libraries=libraries, log=self._log)).decode()
        for bounds in wanted[:_MOST]:
            try:
                child = await ChildProcess.start(
                    _MODULE, f"{self._name} (in advance)", arguments, environment=bounds | os.environ
                )
            except SetupError:
                return
            self._waiting.append((bounds, child))

    def take(self, bounds: Bounds, arguments: WorkerArguments) -> ChildProcess | None:
        """One with these bounds, which runs what `arguments` say from now on; None when there is none."""
        for at, (its_bounds, child) in enumerate(self._waiting):
            if its_bounds == bounds and child.alive:
                del self._waiting[at]
                child.channel.send_raw(msgspec.json.encode(arguments))
                return child
        return None

    async def end(self) -> None:
        """Ends all that wait."""
        waiting, self._waiting = self._waiting, []
        for _, child in waiting:
            child.kill()
            child.channel.close()
        for _, child in waiting:
            await child.end_within(_GRACE_S)
