"""What a mount was given becomes an application: the object itself, what a name stands for, or what a factory makes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Final, cast

from trilith.core.foreign import named_error
from trilith.errors import SetupError, TrilithError
from trilith.service.mounts.asgi import AsgiApp, MountedAsgi
from trilith.service.mounts.port import MountedApp, MountPlace
from trilith.service.mounts.wsgi import MountedWsgi, WsgiApp
from trilith.service.user_errors import USER_ERRORS

_ASGI_PARAMETERS: Final = 3
_WSGI_PARAMETERS: Final = 2


async def open_app(source: object, place: MountPlace) -> MountedApp:
    """The application that `source` stands for, of one instance.

    Args:
        source: an ASGI or WSGI application, `module:name` of one, or a function that makes one: it gets the instance,
            unless it takes nothing.
        place: where it is mounted.

    Raises:
        SetupError: there is none; the cause is what the user's code raised.
    """
    found = named(source, place.where) if isinstance(source, str) else source
    arity = _factory_parameters(found)
    if arity is not None:
        found = await _made(found, arity, place)
    kind = interface_of(found)
    if kind == "asgi":
        return MountedAsgi(cast("AsgiApp", found), place)
    if kind == "wsgi":
        return MountedWsgi(cast("WsgiApp", found), place)
    made = "its factory returned" if arity is not None else "it is"
    raise SetupError(
        f"{place.where}: expected an ASGI or a WSGI application, and {made} {type(found).__name__}: {found!r:.100}"
    )


def named(name: str, where: str) -> Any:
    """What stands in a module.

    Raises:
        SetupError: there is no such module, or it has no such name, or importing it raised.
    """
    module_name, _, attributes = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except USER_ERRORS as error:
        raise SetupError(f"{where}: {name!r} could not be loaded: {named_error(error)}") from error
    return found


def interface_of(app: Any) -> str:
    """`asgi` or `wsgi` by what it is called with; "" when it is neither."""
    if not callable(app) or isinstance(app, type):
        return ""
    call = app if inspect.isfunction(app) or inspect.ismethod(app) else type(app).__call__
    count = _positional(app)
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(app):
        return "asgi" if _fits(count, _ASGI_PARAMETERS) else ""
    if _fits(count, _ASGI_PARAMETERS) and not _fits(count, _WSGI_PARAMETERS):
        return "asgi"  # a plain function that returns a coroutine
    return "wsgi" if _fits(count, _WSGI_PARAMETERS) else ""


def _factory_parameters(found: Any) -> int | None:
    """How many arguments a factory is called with; None: it is no factory."""
    if not (inspect.isfunction(found) or inspect.ismethod(found)):
        return None
    least, most = _positional(found)
    if most == 0:
        return 0
    return 1 if least <= 1 <= most and most < _WSGI_PARAMETERS else None


async def _made(factory: Any, arity: int, place: MountPlace) -> object:
    arguments = (place.instance,)[:arity]
    try:
        if inspect.iscoroutinefunction(factory):
            made: object = await factory(*arguments)
            return made
        outcome, error = await place.in_thread(_outcome, factory, arguments)
    except TrilithError:
        raise
    except USER_ERRORS as raised:
        error, outcome = raised, None
    if error is not None:
        if isinstance(error, TrilithError):
            raise error
        raise SetupError(f"{place.where}: its application could not be made: {named_error(error)}") from error
    made = outcome
    return made


def _outcome(factory: Callable[..., object], arguments: tuple[object, ...]) -> tuple[object, BaseException | None]:
    """What it returned or raised: no future can hold every exception."""
    try:
        return factory(*arguments), None
    except USER_ERRORS as error:
        return None, error


def _positional(function: Any) -> tuple[int, int]:
    """How many positional arguments it must and may be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [one for one in parameters if one.kind in kinds]
    least = sum(one.default is one.empty for one in positional)
    endless = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return least, 99 if endless else len(positional)


def _fits(count: tuple[int, int], arguments: int) -> bool:
    return count[0] <= arguments <= count[1]
