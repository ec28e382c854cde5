"""What one step of a load brings: versions, further instances of versions that go on, and what failed.

Rule: everything of a step loads at the same time, and nothing of it raises alone: what failed is told with the rest.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilith.runtime.attempt import Attempt
from trilith.runtime.backends import Backend
from trilith.runtime.changes import Reload
from trilith.runtime.load_threads import LoadThreads
from trilith.runtime.loading import LoadedVersion, close_all, load_more, load_version
from trilith.runtime.repository import ModelPlan
from trilith.runtime.sources.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a step brought.

    Attributes:
        versions: that were loaded.
        more: backends for versions that go on.
        failures: why the others are not there.
    """

    versions: Mapping[str, LoadedVersion]
    more: Mapping[str, Sequence[Backend]]
    failures: Mapping[str, Exception]

    def close(self) -> None:
        """Frees it, when none of it will serve. Blocks."""
        for version in self.versions.values():
            version.close()
        for backends in self.more.values():
            close_all(backends)


async def load_step(
    threads: LoadThreads,
    attempt: Attempt,
    plan: ModelPlan,
    step: Reload,
    *,
    missing: Mapping[str, int],
    progress: Progress,
    timeout_s: float | None,
) -> Brought:
    """Loads what a step needs.

    Args:
        threads: where it loads.
        attempt: whose step it is.
        plan: what is to be loaded.
        step: how the old standing becomes the new one.
        missing: how many more backends each version needs that goes on.
        progress: told of downloads.
        timeout_s: how long each may give no sign that it gets on; None for ever.
    """
    files = {str(file.version): file for file in plan.files}

    async def version(name: str) -> LoadedVersion:
        return await attempt.run(
            threads,
            functools.partial(load_version, plan, files[name], progress),
            what=f"model '{plan.spec.name}' version {name}",
            timeout_s=timeout_s,
            discard=LoadedVersion.close,
        )

    async def instances(name: str, count: int) -> Sequence[Backend]:
        return await attempt.run(
            threads,
            functools.partial(load_more, plan, files[name], count),
            what=f"further instances of model '{plan.spec.name}' version {name}",
            timeout_s=timeout_s,
            discard=close_all,
        )

    loads, grown = await asyncio.gather(
        asyncio.gather(*(version(name) for name in step.load), return_exceptions=True),
        asyncio.gather(*(instances(name, count) for name, count in missing.items()), return_exceptions=True),
    )
    versions: dict[str, LoadedVersion] = {}
    more: dict[str, Sequence[Backend]] = {}
    failures: dict[str, Exception] = {}
    for name, load in zip(step.load, loads, strict=True):
        if isinstance(load, LoadedVersion):
            versions[name] = load
        else:
            failures[name] = _failure(load)
    for name, backends in zip(missing, grown, strict=True):
        if isinstance(backends, BaseException):
            failures[name] = _failure(backends)
        else:
            more[name] = backends
    return Brought(versions=versions, more=more, failures=failures)


def _failure(found: BaseException) -> Exception:
    if isinstance(found, Exception):
        return found
    raise found  # the program is ended
