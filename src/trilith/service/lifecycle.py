"""The beginning and the end of an instance of a service, when its class says what they are: Python's context managers.

    async def __aenter__(self)  /  async def __aexit__(self, *error)     on the process's event loop
    def __enter__(self)         /  def __exit__(self, *error)            in a thread each

Rule 1: entered once, after the constructor and when the models are known, before the first call; left once, after the
last call. A class with both kinds is entered as an asynchronous one.
Rule 2: an error of entering ends the start. One of leaving, or leaving that takes too long, is logged and changes
nothing: the process ends anyway.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from trilith.core.aside import aside
from trilith.core.foreign import named_error
from trilith.core.forks import end_if_forked
from trilith.errors import InvalidConfig, SetupError, TrilithError
from trilith.service.user_errors import USER_ERRORS, from_outside

_log: Final = logging.getLogger("trilith.service")
_PAIRS: Final = (("__aenter__", "__aexit__"), ("__enter__", "__exit__"))

InThread = Callable[..., Awaitable[Any]]
"""Runs a function in a thread."""


def check_lifecycle(target: type) -> None:
    """Refuses half a context manager.

    Raises:
        InvalidConfig: one of the two methods is missing.
    """
    for pair in _PAIRS:
        missing = [name for name in pair if not hasattr(target, name)]
        if len(missing) == 1:
            [there] = set(pair) - set(missing)
            raise InvalidConfig(
                f"{target.__name__} has {there} and no {missing[0]}: an instance is entered before its first call and"
                f" left after its last, so write both"
            )


async def enter(instance: object, name: str, in_thread: InThread) -> None:
    """Enters an instance of the service `name`.

    Raises:
        SetupError: its method raised.
    """
    kind = type(instance)
    error: BaseException | None = None
    try:
        if hasattr(kind, "__aenter__"):
            await kind.__aenter__(instance)
        elif hasattr(kind, "__enter__"):
            error = await in_thread(_raised, kind.__enter__, instance)
    except USER_ERRORS as raised:
        if isinstance(raised, asyncio.CancelledError) and from_outside():
            raise
        error = raised
    if isinstance(error, TrilithError):
        raise error
    if error is not None:
        raise SetupError(
            f"{name} could not be started: its {lifecycle_of(kind)} raised {named_error(error)}"
        ) from error


async def leave(instance: object, name: str, *, timeout_s: float) -> None:
    """Leaves an instance that was entered, within `timeout_s` seconds. Raises nothing that the user's method raised.

    A plain `__exit__` has a thread of its own: those of the methods may all hang.
    """
    kind = type(instance)
    errors: list[BaseException] = []
    in_time = True
    if hasattr(kind, "__aexit__"):
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await kind.__aexit__(instance, None, None, None)
        except USER_ERRORS as raised:
            if isinstance(raised, asyncio.CancelledError) and from_outside():
                raise
            in_time = not limit.expired()
            errors.append(raised)
    elif hasattr(kind, "__exit__"):
        context = contextvars.copy_context()

        def work() -> None:
            raised = context.run(_raised, kind.__exit__, instance, None, None, None)
            end_if_forked()
            if raised is not None:
                errors.append(raised)

        try:
            in_time = await aside(work, name=f"{name} leaves", timeout_s=timeout_s)
        except RuntimeError as refused:  # by the system: one more thread
            errors.append(refused)
    if not in_time:
        _log.error("%s was not left within %.3g s and is ended as it is", name, timeout_s)
    elif errors:
        _log.error("%s was left, and that raised %s", name, named_error(errors[0]), exc_info=errors[0])


def lifecycle_of(target: type) -> str:
    """The method that enters an instance of the class, or "" when it has none."""
    return next((pair[0] for pair in _PAIRS if hasattr(target, pair[0])), "")


def _raised(function: Callable[..., object], *arguments: object) -> BaseException | None:
    """What the user's function raised: no future can hold every exception."""
    try:
        function(*arguments)
    except USER_ERRORS as error:
        return error
    return None
