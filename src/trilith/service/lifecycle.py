"""The beginning and the end of an instance of a service, when its class says what they are: Python's context managers.

    async def __aenter__(self)  /  async def __aexit__(self, *error)     on the process's event loop
    def __enter__(self)         /  def __exit__(self, *error)            in a thread

Rule 1: entered once, after the constructor and when the models are known, before the first call; left once, after the
last call. A class with both kinds is entered as an asynchronous one.
Rule 2: an error of entering ends the start. One of leaving, or leaving that takes too long, is logged and changes
nothing: the process ends anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from trilith.core.foreign import named_error
from trilith.errors import InvalidConfig, SetupError, TrilithError

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
    try:
        if hasattr(kind, "__aenter__"):
            await kind.__aenter__(instance)
        elif hasattr(kind, "__enter__"):
            await in_thread(kind.__enter__, instance)
    except TrilithError:
        raise
    except Exception as error:
        method = "__aenter__" if hasattr(kind, "__aenter__") else "__enter__"
        raise SetupError(f"{name} could not be started: its {method} raised {named_error(error)}") from error


async def leave(instance: object, name: str, in_thread: InThread, *, timeout_s: float) -> None:
    """Leaves an instance that was entered, within `timeout_s` seconds. Raises nothing that the user's method raised."""
    kind = type(instance)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            if hasattr(kind, "__aexit__"):
                await kind.__aexit__(instance, None, None, None)
            elif hasattr(kind, "__exit__"):
                await in_thread(kind.__exit__, instance, None, None, None)
    except Exception as error:  # noqa: BLE001  the user's method: the process ends, whatever it raised
        if limit.expired():
            _log.error("%s was not left within %.3g s and is ended as it is", name, timeout_s)
            return
        _log.error("%s was left, and that raised %s", name, named_error(error), exc_info=error)
