"""What an instance of a service says of itself, when its class has a say: two methods that return True or False.

    def __is_ready__(self) -> bool     whether calls may come now: until then, and while not, the replica gets none
    def __is_alive__(self) -> bool     whether the process is of any use: when not, again and again, it is replaced

Either may be `async def`. A plain one runs in a thread of its own: those of the methods may all be taken.

Rule: only True is yes. Another value, an error, or no answer in time is no, and said to be that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from trilith.core.foreign import named_error
from trilith.errors import InvalidConfig
from trilith.service.user_hooks import run_hook

IS_READY: Final = "__is_ready__"
IS_ALIVE: Final = "__is_alive__"
_HOOKS: Final = (IS_READY, IS_ALIVE)


def check_health(target: type) -> None:
    """Refuses a hook that could not be called.

    Raises:
        InvalidConfig: it is no method without parameters.
    """
    for name in _HOOKS:
        hook = getattr(target, name, None)
        if hook is None:
            continue
        if not inspect.isfunction(hook) or inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
            raise InvalidConfig(f"{target.__name__}.{name} must be a method that returns True or False")
        try:
            inspect.signature(hook).bind(None)
        except TypeError as error:
            raise InvalidConfig(f"{target.__name__}.{name} is called without arguments: {error}") from error


def has_hook(target: object, name: str) -> bool:
    """Whether a service's class has that hook."""
    return isinstance(target, type) and hasattr(target, name)


async def why_not(instance: object, name: str, *, timeout_s: float) -> str:
    """Why the hook `name` of the instance does not say yes, as the end of a sentence; "" when it does."""
    kind = type(instance)
    hook: Callable[..., Any] = getattr(kind, name)
    end = await run_hook(hook, instance, name=f"{kind.__name__}.{name}", timeout_s=timeout_s)
    if not end.in_time:
        return f"{name} did not answer within {timeout_s:g} s"
    if end.error is not None:
        return f"{name} raised {named_error(end.error)}"
    if end.answer is True:
        return ""
    return f"{name} returned {end.answer!r:.100}" + ("" if end.answer is False else ", and must return True or False")
