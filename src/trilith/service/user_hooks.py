"""A function of the user's that is called beside the calls of clients, and may take only so long.

Rule: whatever it raises or hangs in is told, and nobody's else. A plain one has a thread of its own: those of the
methods may all be taken.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trilith.core.aside import aside
from trilith.core.forks import end_if_forked
from trilith.service.user_errors import USER_ERRORS, from_outside


@dataclass(slots=True)
class HookEnd:
    """What became of it.

    Attributes:
        answer: what it returned.
        error: what it raised, or None.
        in_time: whether it ended within its time; if not, there is neither.
    """

    answer: object = None
    error: BaseException | None = None
    in_time: bool = True


async def run_hook(function: Callable[..., Any], *arguments: object, name: str, timeout_s: float) -> HookEnd:
    """Calls it.

    Args:
        function: plain or `async def`.
        arguments: its arguments.
        name: of the thread of a plain one.
        timeout_s: seconds that it may take.

    Raises:
        asyncio.CancelledError: whoever waits was cancelled.
        RuntimeError: the system has no thread for it.
    """
    end = HookEnd()
    if not inspect.iscoroutinefunction(function):

        def work() -> None:
            try:
                end.answer = function(*arguments)
            except USER_ERRORS as error:  # no future can hold every exception
                end.error = error
            end_if_forked()

        end.in_time = await aside(work, name=name, timeout_s=timeout_s)
        return end
    try:
        async with asyncio.timeout(timeout_s) as limit:
            try:
                end.answer = await function(*arguments)
            finally:
                end.in_time = not limit.expired()
    except USER_ERRORS as error:
        if isinstance(error, asyncio.CancelledError) and from_outside():
            raise
        end.error = error
    return end
