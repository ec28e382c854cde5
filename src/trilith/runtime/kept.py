"""What is kept of one model, and what its loads are begun and ended with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final

from trilith.errors import TrilithError
from trilith.runtime.agents.chain import AgentChain
from trilith.runtime.attempt import Attempt
from trilith.runtime.backends import ModelFile
from trilith.runtime.changes import Standing
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import ModelEvent, ModelState
from trilith.runtime.naming import name_of, namespace_of
from trilith.runtime.overrides import Override
from trilith.runtime.repository import ModelPlan
from trilith.runtime.served import ServedModel
from trilith.runtime.spec import ModelSpec
from trilith.runtime.statistics import StatisticsCollector

_log: Final = logging.getLogger("trilith.runtime")

Held = Override | AgentChain
"""What must stay as long as a model is served: files that a client sent, and what agents have made."""


class Model:
    """One model: its handles, what serves them, and what they were loaded from."""

    __slots__ = (
        "agents",
        "attempts",
        "handles",
        "hosted_from",
        "key",
        "loading",
        "newest",
        "override",
        "path",
        "renamed",
        "retiring",
        "sent",
        "served",
        "standing",
        "statistics",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.retiring: set[asyncio.Task[None]] = set()  # unloads that wait for what is in flight
        self.attempts: list[Attempt] = []  # those that did not end yet
        self.loading: Attempt | None = None  # the one of them that loads; others only look what there is to load
        self.newest = -1  # number of the latest attempt that loaded, or of what undid it
        self.path: Path | None = None  # where it was loaded from, when that was not a repository
        self.renamed = False  # whether it serves by another name than its configuration says
        self.hosted_from = ""  # the place that a client named, when it was told to load from there
        self.sent = False  # whether a client sent its files with the last load, so that it may be in no repository
        self.handles: list[ModelHandle] = []
        self.served: dict[str, ServedModel] = {}
        self.statistics: dict[str, StatisticsCollector] = {}  # by version; they outlive what they count
        self.standing: Standing | None = None
        self.override: Override | None = None  # its files must stay while it is served
        self.agents: AgentChain | None = None  # and so must what these have made

    @property
    def counts(self) -> bool:
        """Whether its name stands for it: it is or was to be served, and nobody has unloaded it since."""
        return bool(self.attempts) or any(
            not (handle.unloaded or handle.state is ModelState.UNLOADING) for handle in self.handles
        )

    @property
    def hosted(self) -> bool:
        """Whether a client had it loaded from a place of its own, and it is there, or its end is still waited for."""
        return bool(self.hosted_from and (self.served or self.retiring))

    @property
    def gone(self) -> bool:
        """Whether all that is left of it is why, and there may be nothing to load again."""
        return self.sent and not (self.served or self.attempts or self.retiring)


async def forget(*held: Held | None) -> None:
    """Lets go of what a model was loaded from, when nothing is served from it any more."""
    for each in held:
        if each is not None:
            await asyncio.to_thread(each.close)


async def retire(served: Collection[ServedModel], drain_timeout_s: float) -> None:
    """Ends what served, all at the same time. What cannot be ended is logged, and left behind."""

    async def end(each: ServedModel) -> None:
        await each.drain(drain_timeout_s)
        await each.stop(drain_timeout_s)

    ends = await asyncio.gather(*(end(each) for each in served), return_exceptions=True)
    for each, error in zip(served, ends, strict=True):
        if error is not None:
            _log.error("model '%s' version %s cannot be ended", each.name, each.version, exc_info=error)


def new_handle(model: Model, plan: ModelPlan, file: ModelFile) -> ModelHandle:
    """The handle of a version that is about to be loaded."""
    filename = file.path.name if file.path is not None else plan.kind.filename
    return ModelHandle(
        plan.spec,
        str(file.version),
        model.handles,
        platform=plan.kind.platform,
        filename=filename,
        namespace=namespace_of(model.key),
    )


def unavailable_handle(key: str, error: TrilithError, siblings: list[ModelHandle]) -> ModelHandle:
    """The handle of a model of which not even the versions are known."""
    handle = ModelHandle(ModelSpec(name=name_of(key)), "", siblings, namespace=namespace_of(key))
    handle.became(ModelEvent.FAILED, error.message)
    return handle


def collector(model: Model, version: str, *, keep: bool) -> StatisticsCollector:
    """Where a version that is about to serve is counted: beside what was counted of it before, or anew."""
    before = model.statistics.get(version)
    new = StatisticsCollector(name_of(model.key), version, namespace=namespace_of(model.key))
    return before if before is not None and keep else new


def count(model: Model, version: str, collector: StatisticsCollector) -> None:
    """Notes that the version serves now, and is counted there."""
    before = model.statistics.get(version)
    collector.generation = 1 if before is None else before.generation + 1
    model.statistics[version] = collector
