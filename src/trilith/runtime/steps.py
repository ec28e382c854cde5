"""What one step of a load brings: versions, further instances of versions that go on, and what failed.

Rule: everything of a step loads at the same time, and nothing of it raises alone: what failed is told with the rest.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from trilith.core.backend_config import BackendConfig
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.agents.chain import Agents
from trilith.runtime.attempt import Attempt
from trilith.runtime.backends import Backend
from trilith.runtime.changes import Reload
from trilith.runtime.load_threads import LoadThreads, Overdue
from trilith.runtime.loading import LoadedVersion, close_all, load_more, load_version
from trilith.runtime.repository import ModelPlan
from trilith.runtime.sources.progress import Progress

_log: Final = logging.getLogger("trilith.runtime")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRules:
    """How models are loaded.

    Attributes:
        timeout_s: how long a load may give no sign that it gets on, in seconds; None for ever.
        retries: how often a load that failed is tried again.
        config_name: which configuration of a model's folder holds; "" for the usual one.
        gpu_instances_on_cpu: whether instances that ask for a GPU run on a CPU.
        settings: by model, what stands before its configuration.
        auto_complete: whether what a configuration leaves out is taken from the model.
        backends: what was said of backends.
        agents: repository agents.
        keep_statistics: whether a version that is loaded again goes on counting where it was.
        drain_timeout_s: how long requests in flight may take when a version stops.
    """

    timeout_s: float | None
    retries: int
    config_name: str
    gpu_instances_on_cpu: bool
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    auto_complete: bool = True
    backends: BackendConfig = field(default_factory=BackendConfig)
    agents: Agents = field(default_factory=Agents)
    keep_statistics: bool
    drain_timeout_s: float


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
    rules: LoadRules,
) -> Brought:
    """Loads what a step needs.

    Args:
        threads: where it loads.
        attempt: whose step it is.
        plan: what is to be loaded.
        step: how the old standing becomes the new one.
        missing: how many more backends each version needs that goes on.
        progress: told of downloads.
        rules: how it loads.
    """
    timeout_s = plan.spec.load_timeout_s
    files = {str(file.version): file for file in plan.files}

    async def once(name: str) -> LoadedVersion:
        return await attempt.run(
            threads,
            functools.partial(load_version, plan, files[name], progress),
            what=f"model '{plan.spec.name}' version {name}",
            timeout_s=timeout_s,
            discard=LoadedVersion.close,
        )

    async def version(name: str) -> LoadedVersion:
        return await retried(attempt, rules, functools.partial(once, name))

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


async def retried(attempt: Attempt, rules: LoadRules, once: Callable[[], Awaitable[_Result]]) -> _Result:
    """Does it once, and as often again as the rules allow where that may help."""
    for left in range(rules.retries, 0, -1):
        try:
            return await once()
        except (InvalidConfig, Overdue):
            raise  # the next time would end as this one
        except SetupError as error:
            attempt.check()
            _log.warning("%s; it is tried again, up to %d times", error.message, left)
    return await once()


def _failure(found: BaseException) -> Exception:
    if isinstance(found, Exception):
        return found
    raise found  # the program is ended
