"""The beginning and the end of an ASGI application: https://asgi.readthedocs.io/en/latest/specs/lifespan.html.

Rule 1: both run in one task, as libraries that keep something open across them (anyio's cancel scopes) need.
Rule 2: an application that does not know of it raises when it is asked, or returns: it has no beginning and no end. One
    that says `lifespan.startup.failed` cannot be served.
Rule 3: one that raises later, before it is asked to end, does not work any more: that is logged, and its replica is not
    well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from trilith.core.foreign import named_error
from trilith.errors import SetupError
from trilith.service.user_errors import USER_ERRORS, from_outside

_log: Final = logging.getLogger("trilith.service")
_ASGI: Final = {"version": "3.0", "spec_version": "2.0"}
_SLOW_S: Final = 5.0
_COMPLETE: Final = ".complete"
_FAILED: Final = ".failed"


class Lifespan:
    """That of one application.

    Args:
        app: the application.
        where: for messages.

    Attributes:
        state: what it keeps for its requests: each gets a copy.
        why_not: why the application does not work any more, as a sentence; "" while it does.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], where: str) -> None:
        self._app = app
        self._where = where
        self.state: dict[str, Any] = {}
        self.why_not = ""
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._asked: asyncio.Queue[str] = asyncio.Queue()
        self._answers: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._raised: BaseException | None = None

    async def start(self) -> None:
        """Runs what is done at the start.

        Raises:
            SetupError: it failed; the cause is what the application raised.
        """
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._asked.put_nowait("lifespan.startup")
        slow = asyncio.get_running_loop().call_later(
            _SLOW_S, _log.warning, "%s has not said for %g s that it has started (lifespan)", self._where, _SLOW_S
        )
        try:
            await self._answered("lifespan.startup")
        except BaseException:
            self._task.cancel()
            raise
        finally:
            slow.cancel()
        failed = self._answers.get("lifespan.startup" + _FAILED)
        if failed is not None:
            await asyncio.wait({self._task}, timeout=1.0)  # what it raises says more
            self._task.cancel()
            why = named_error(self._raised) if self._raised is not None else failed or "it gave no reason"
            raise SetupError(f"{self._where} could not be started: {why}") from self._raised
        self._task.add_done_callback(self._over)

    def _over(self, _: asyncio.Task[None]) -> None:
        if self._raised is not None and not self._stopping:
            self.why_not = f"{self._where}: what it keeps open (lifespan) ended with {named_error(self._raised)}"
            _log.error("%s does not work any more: its lifespan raised", self._where, exc_info=self._raised)

    async def stop(self, timeout_s: float) -> None:
        """Runs what is done at the end, for at most `timeout_s` seconds."""
        task = self._task
        if task is None or task.done():
            return
        self._stopping = True
        self._asked.put_nowait("lifespan.shutdown")
        try:
            async with asyncio.timeout(timeout_s):
                await self._answered("lifespan.shutdown")
                await asyncio.wait({task})
        except TimeoutError:
            _log.error("%s did not end within %.3g s and is ended as it is", self._where, timeout_s)
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
        failed = self._answers.get("lifespan.shutdown" + _FAILED)
        if failed is not None or self._raised is not None:
            _log.error("%s ended with an error: %s", self._where, failed or "see below", exc_info=self._raised)

    async def _answered(self, kind: str) -> None:
        """Returns when the application has answered, or has returned or raised."""
        task = self._task
        while task is not None and not task.done() and not self._has_answered(kind):
            self._changed.clear()
            await self._changed.wait()

    def _has_answered(self, kind: str) -> bool:
        return kind + _COMPLETE in self._answers or kind + _FAILED in self._answers

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": dict(_ASGI), "state": self.state}
        try:
            await self._app(scope, self._receive, self._send)
        except USER_ERRORS as error:
            if isinstance(error, asyncio.CancelledError) and from_outside():
                raise
            if self._answers:  # else it does not know of it
                self._raised = error
        finally:
            asyncio.get_running_loop().call_soon(self._changed.set)  # when the task is done

    async def _receive(self) -> dict[str, str]:
        return {"type": await self._asked.get()}

    async def _send(self, message: Any) -> None:
        self._answers[message["type"]] = str(message.get("message", ""))
        self._changed.set()
