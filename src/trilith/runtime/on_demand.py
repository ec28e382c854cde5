"""Loads models when somebody wants them for the first time, and unloads others for them.

Rule 1: what comes and goes is decided in `residents`; this file does it.
Rule 2: everyone who waits for a model is told once: that it is there, why it cannot be loaded, or that it takes too
    long. A load that has begun goes on without them; one that waits is dropped with the last of them.
Rule 3: everything here runs on the loop's thread, which never waits for a disk: a name that nobody has asked for yet is
    first looked for in a thread (`looks`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from trilith.core.clock import Clock
from trilith.errors import Bug, Conflict, Draining, NoReadyReplica, QueueFull, TrilithError
from trilith.runtime.keeper import ModelKeeper
from trilith.runtime.loading import LoadFailed
from trilith.runtime.looks import Looks
from trilith.runtime.public_cause import public_cause
from trilith.runtime.residents import Load, Residents

MOST_WAITING: Final = 1024
"""Requests that may wait for one model to be loaded."""
_LOOK_AGAIN_S: Final = 0.05  # while somebody waits for a model to fall idle
_log: Final = logging.getLogger("trilith.runtime")

OnLoaded = Callable[[TrilithError | None], None]
"""Told once: None when the model is there, or why it is not."""


class Waiter:
    """Somebody who waits for a model."""

    __slots__ = ("_demand", "name", "on_loaded", "timer")

    def __init__(self, demand: OnDemand, name: str, on_loaded: OnLoaded, timer: asyncio.TimerHandle) -> None:
        self._demand = demand
        self.name = name
        self.on_loaded = on_loaded
        self.timer = timer

    def cancel(self) -> None:
        """He goes away, and is told nothing. Does nothing when he was told."""
        self._demand.leave(self)


class OnDemand:
    """Models of the repositories that nobody loaded, and those that were loaded because somebody wanted them.

    Args:
        keeper: loads and unloads.
        looks: finds out whether there is a model of a name that nobody has asked for yet.
        most: models in memory at a time; None for no bound. Those that were loaded otherwise do not count.
        wait_s: how long whoever wants a model waits for it, in seconds.
        clock: tells the time.
        loop: the loop that calls everything here.
    """

    def __init__(
        self,
        keeper: ModelKeeper,
        looks: Looks,
        *,
        most: int | None,
        wait_s: float,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._keeper = keeper
        self._looks = looks
        self._residents = Residents(most=most)
        self._wait_s = wait_s
        self._clock = clock
        self._loop = loop
        self._waiting: dict[str, list[Waiter]] = {}
        self._failures: dict[str, str] = {}
        self._fresh: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def absent(self, name: str) -> bool:
        """Whether the model is not in memory. If somebody wants it, it is loaded: if there is such a model."""
        keeper = self._keeper
        return keeper.open and (name, "") not in keeper.routes

    async def obtainable(self, name: str) -> bool:
        """Whether there is a model of that name that is absent.

        Raises:
            CapacityError: the disk does not say so now.
        """
        return self.absent(name) and (name in self._keeper.models or await self._looks.look(name))

    def seems_obtainable(self, name: str) -> bool:
        """The same by what was seen last, without waiting: for who asks again."""
        return self.absent(name) and (name in self._keeper.models or self._looks.saw(name))

    def used(self, name: str) -> None:
        """A request for a model that is in memory."""
        self._residents.used(name)

    def unloaded(self, name: str) -> None:
        """Somebody else unloaded the model."""
        self._residents.gone(name)

    def want(self, name: str, on_loaded: OnLoaded) -> Waiter | None:
        """Loads a model that is absent. Who waits for it now; None when `on_loaded` was called already."""
        pause_s = self._residents.pause_s(name, self._clock.now())
        if pause_s:
            on_loaded(self._failed(name, pause_s))
            return None
        waiting = self._waiting.setdefault(name, [])
        if len(waiting) >= MOST_WAITING:
            on_loaded(QueueFull(f"Exceeds maximum queue size: {MOST_WAITING} requests wait for model '{name}' to load"))
            return None
        waiter = Waiter(self, name, on_loaded, self._loop.call_later(self._wait_s, self._too_late, name))
        waiting.append(waiter)
        if name in self._keeper.models:
            self._residents.want(name)
            self._look()
        elif len(waiting) == 1:
            self._spawn(self._look_for(name))
        return waiter

    async def _look_for(self, name: str) -> None:
        """Loads a model that nobody has asked for yet, if there is one."""
        try:
            there = await self._looks.look(name)
            if not there:
                self._keeper.refuse_unknown(name, "")
        except TrilithError as error:
            self._tell(name, error)
            return
        if name in self._waiting:
            self._residents.want(name)
            self._look()

    def leave(self, waiter: Waiter) -> None:
        """See `Waiter.cancel`."""
        waiting = self._waiting.get(waiter.name, [])
        if waiter in waiting:
            waiting.remove(waiter)
            waiter.timer.cancel()
            self._drop_unwanted(waiter.name)

    async def load(self, name: str) -> None:
        """The same for a coroutine.

        Raises:
            TrilithError: it cannot be loaded, or not in time.
        """
        told: asyncio.Future[TrilithError | None] = self._loop.create_future()
        waiter = self.want(name, lambda error: None if told.done() else told.set_result(error))
        try:
            error = await told
        finally:
            if waiter is not None:
                waiter.cancel()
        if error is not None:
            raise error

    async def stop(self) -> None:
        """Tells everyone who waits that there is nothing to wait for."""
        if self._timer is not None:
            self._timer.cancel()
        for name in list(self._waiting):
            self._tell(name, Draining("the runtime was stopped while the model was loading"))
        begun = [*self._tasks, *self._loads.values()]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    def _look(self) -> None:
        for action in self._residents.due(self._busy):
            if isinstance(action, Load):
                self._loads[action.name] = self._loop.create_task(self._load(action.name))
            else:
                self._spawn(self._evict(action.name))
        if self._residents.blocked and self._timer is None:
            self._timer = self._loop.call_later(_LOOK_AGAIN_S, self._look_again)

    def _busy(self, name: str) -> bool:
        return name in self._fresh or self._keeper.busy(name)

    def _look_again(self) -> None:
        self._timer = None
        self._look()

    def _drop_unwanted(self, name: str) -> None:
        """Takes the load back that nobody waits for, unless it has begun."""
        if self._waiting.get(name):
            return
        self._waiting.pop(name, None)
        task = self._loads.get(name)
        if task is None or self._keeper.queued(name):
            self._residents.unwanted(name)
            if task is not None:
                del self._loads[name]
                task.cancel()
            self._loop.call_soon(self._look)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, name: str) -> None:
        try:
            await self._keeper.load(name)
        except TrilithError as error:
            level = logging.INFO if isinstance(error, Conflict) else logging.ERROR
            _log.log(level, "model '%s' cannot be loaded on demand: %s", name, error.message)
            shown = error.public if isinstance(error, LoadFailed) else public_cause(error.message, name)
            self._fail(name, shown)
        except Exception:  # noqa: BLE001 - whatever one model's files cause, who waits for it is told
            _log.exception("loading model '%s' on demand failed", name)
            self._fail(name, Bug("the server's log says more").message)
        else:
            self._loads.pop(name, None)
            self._residents.loaded(name)
            self._failures.pop(name, None)
            self._fresh.add(name)  # who was told of it now may use it in the next turn of the loop
            self._tell(name, None)
            self._loop.call_soon(self._fresh.discard, name)
        self._loop.call_soon(self._look)

    def _fail(self, name: str, shown: str) -> None:
        now = self._clock.now()
        self._loads.pop(name, None)
        self._residents.failed(name, now)
        self._failures[name] = shown
        self._tell(name, self._failed(name, self._residents.pause_s(name, now)))

    async def _evict(self, name: str) -> None:
        try:
            await self._keeper.unload(name)
        except TrilithError as error:
            _log.error("model '%s' cannot be unloaded: %s", name, error.message)
        except Exception:  # noqa: BLE001 - whatever went wrong, its place must not be taken for ever
            _log.exception("unloading model '%s' failed", name)
        self._residents.gone(name)
        self._look()

    def _failed(self, name: str, pause_s: float) -> NoReadyReplica:
        why = self._failures.get(name, "it cannot be loaded")
        return NoReadyReplica(
            f"Request for unknown model: '{name}' is not at ready state: {why}", retry_after_s=max(1.0, pause_s)
        )

    def _too_late(self, name: str) -> None:
        """The first of those who wait has waited for as long as it may."""
        waiter = self._waiting[name].pop(0)
        others = "it is being looked for" if self._looks.running(name) else "other models are busy, and have its place"
        doing = self._keeper.doing(name) or others
        waiter.on_loaded(
            NoReadyReplica(
                f"Request for unknown model: '{name}' is not at ready state: it was wanted {self._wait_s:g} s ago and "
                f"is not there yet ({doing}); try again"
            )
        )
        self._drop_unwanted(name)

    def _tell(self, name: str, error: TrilithError | None) -> None:
        for waiter in self._waiting.pop(name, []):
            waiter.timer.cancel()
            waiter.on_loaded(error)
