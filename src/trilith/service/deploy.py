"""What is to be done once for each revision of an application, before any of its instances is made.

    @trilith.service
    class Ocr:
        @staticmethod                       no instance exists: a function without parameters, or a class method
        @trilith.on_deploy
        def fetch() -> None: ...

    @trilith.on_deploy(timeout_s=60)        beside a service, in its module
    async def migrate() -> None: ...

Rule: what a service depends on comes before it. The first that fails ends the start, or the change: nothing of it is
made, and what serves goes on.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from trilith.core.foreign import named_error
from trilith.errors import InvalidConfig, SetupError, TrilithError
from trilith.service.spec import ServiceSpec
from trilith.service.user_hooks import run_hook

Hook = TypeVar("Hook")

_ATTRIBUTE: Final = "__trilith_on_deploy__"
_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployHook:
    """One function. `where`: `Ocr.fetch`."""

    where: str
    function: Callable[[], Any]
    timeout_s: float


@overload
def on_deploy(function: Hook, /) -> Hook: ...
@overload
def on_deploy(*, timeout_s: float = ...) -> Callable[[Hook], Hook]: ...
def on_deploy(function: Any = None, /, *, timeout_s: float = _TIMEOUT_S) -> Any:
    """Has a function run once for each revision, before its services are made: a migration, a download.

    It runs in the process that loads the target, once a start of the server and once a change with `--reload`, so it
    must not mind being run again.

    Args:
        function: without parameters: in the body of a service's class (a static or class method may be, too), or in
            the module of one. Plain or async.
        timeout_s: seconds that it may take.

    Raises:
        InvalidConfig: it stands on something else, or the time is none.
    """
    given: object = timeout_s  # not everybody has a type checker
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InvalidConfig(f"@trilith.on_deploy: timeout_s must be a number of seconds above 0, got {timeout_s!r}")

    def decorate(found: Any) -> Any:
        plain = getattr(found, "__func__", found)
        if not inspect.isfunction(plain) or inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise InvalidConfig(f"@trilith.on_deploy stands on a function, got {found!r:.100}")
        setattr(plain, _ATTRIBUTE, float(timeout_s))
        return found

    return decorate if function is None else decorate(function)


def deploy_hooks(graph: Iterable[ServiceSpec]) -> list[DeployHook]:
    """What is to be run for these services (the root first), in order; each once.

    Raises:
        InvalidConfig: one of them takes arguments.
    """
    found: dict[Any, DeployHook] = {}
    for spec in reversed(list(graph)):
        for where, function in (*_of_module(spec), *_of_class(spec)):
            plain = getattr(function, "__func__", function)
            if plain in found:
                continue
            try:
                inspect.signature(function).bind()
            except TypeError as error:
                raise InvalidConfig(
                    f"{where}: what stands below @trilith.on_deploy is called without arguments: {error}. There is no"
                    " instance yet: leave `self` out, or make it a class method"
                ) from error
            found[plain] = DeployHook(where=where, function=function, timeout_s=getattr(plain, _ATTRIBUTE))
    return list(found.values())


def _of_module(spec: ServiceSpec) -> Iterator[tuple[str, Callable[..., Any]]]:
    name = spec.target.__module__
    for found in list(vars(sys.modules.get(name, object())).values()) if name in sys.modules else []:
        if inspect.isfunction(found) and hasattr(found, _ATTRIBUTE) and found.__module__ == name:
            yield found.__qualname__, found


def _of_class(spec: ServiceSpec) -> Iterator[tuple[str, Callable[..., Any]]]:
    if not isinstance(spec.target, type):
        return
    names = dict.fromkeys(name for base in reversed(spec.target.__mro__) for name in vars(base))
    for name in names:
        raw = inspect.getattr_static(spec.target, name)
        if hasattr(getattr(raw, "__func__", raw), _ATTRIBUTE):
            yield f"{spec.name}.{name}", getattr(spec.target, name)


async def run_deploy_hook(hook: DeployHook) -> None:
    """Runs one.

    Raises:
        SetupError: it raised, or took too long.
    """
    end = await run_hook(hook.function, name=hook.where, timeout_s=hook.timeout_s)
    if not end.in_time:
        raise SetupError(f"{hook.where}, which runs before a deployment, did not end within {hook.timeout_s:g} s")
    if isinstance(end.error, TrilithError):
        raise end.error
    if end.error is not None:
        raise SetupError(
            f"{hook.where}, which runs before a deployment, raised {named_error(end.error)}"
        ) from end.error
