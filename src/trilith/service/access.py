"""A function of the user's that says who a caller is becomes a service, which the gateway calls before all others.

    async def check(request: trilith.AccessRequest) -> trilith.Identity | None:       or plain `def`, in a thread

    class Check:                                                                     with what it needs while it lives
        async def __aenter__(self): ...
        async def __call__(self, request): ...

Rule: the gateway runs no user code, so that nothing of the user's can stop it. As a service the function has what every
service has: processes that are watched and started again, a time limit, a bounded queue, metrics and errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import msgspec

from trilith.core.identity import AccessRequest, Identity
from trilith.errors import InvalidConfig, ServiceError
from trilith.service.declare import api, service
from trilith.service.describe import AppDescription, describe
from trilith.service.spec import SERVICE_ATTRIBUTE, ServiceSpec

ACCESS_SERVICE: Final = "trilith.access"
ACCESS_METHOD: Final = "check"
_OPTIONS: Final[dict[str, Any]] = {"name": ACCESS_SERVICE, "timeout_s": 5.0, "threads": 16, "concurrency": 256}


def access_service(found: object, target: str) -> Any:
    """The service that asks `found`.

    Raises:
        InvalidConfig: it is no function, and no class of which an instance can be called, with one parameter.
    """
    if hasattr(found, SERVICE_ATTRIBUTE):
        raise InvalidConfig(f"{target} is a service; an access function is a plain function, or a class with __call__")
    if isinstance(found, type):
        return service(**_OPTIONS)(_class_of(found, target))
    if not inspect.isfunction(found):
        raise InvalidConfig(f"{target}: expected a function, or a class with __call__, got {type(found).__name__}")
    _check_parameters(found, target, 1)
    return service(**_OPTIONS)(_function_of(found, target))


def with_access(description: AppDescription, access: object) -> AppDescription:
    """The application with the access service behind its own.

    Raises:
        InvalidConfig: a service of the application has its name.
    """
    if description.service(ACCESS_SERVICE) is not None:
        raise InvalidConfig(f"a service may not have the name {ACCESS_SERVICE!r}: it is that of the access function's")
    [added] = describe(access).services
    hidden = msgspec.structs.replace(added, grpc=None)  # nobody but the gateway calls it
    return msgspec.structs.replace(description, services=[*description.services, hidden])


def _function_of(found: Callable[[AccessRequest], Any], target: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(found):

        async def check(request: dict[str, Any]) -> dict[str, Any] | None:
            return _answer(await found(_request(request)), target)

        return check

    def check_in_thread(request: dict[str, Any]) -> dict[str, Any] | None:
        return _answer(found(_request(request)), target)

    check_in_thread.__name__ = ACCESS_METHOD
    return check_in_thread


def _class_of(found: type[Any], target: str) -> type:
    call = getattr(found, "__call__", None)  # noqa: B004 - the method, not whether there is one
    if not inspect.isfunction(call):
        raise InvalidConfig(f"{target}: {found.__name__} has no __call__(self, request)")
    _check_parameters(call, target, 2)
    bases: tuple[type, ...] = (found,)
    if inspect.iscoroutinefunction(call):

        @api
        async def check(self: Any, request: dict[str, Any]) -> dict[str, Any] | None:
            return _answer(await call(self, _request(request)), target)

        return type(found.__name__, bases, {ACCESS_METHOD: check, "__module__": found.__module__})

    def check_in_thread(self: Any, request: dict[str, Any]) -> dict[str, Any] | None:
        return _answer(call(self, _request(request)), target)

    return type(found.__name__, bases, {ACCESS_METHOD: api(check_in_thread), "__module__": found.__module__})


def _check_parameters(function: Callable[..., Any], target: str, count: int) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidConfig(f"{target} is a generator; an access function returns a trilith.Identity or None")
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        raise InvalidConfig(f"{target}: an access function takes one argument, the request: {error}") from error


def _request(values: dict[str, Any]) -> AccessRequest:
    return msgspec.convert(values, AccessRequest)


def _answer(identity: object, target: str) -> dict[str, Any] | None:
    if identity is None:
        return None
    if not isinstance(identity, Identity):
        raise ServiceError(f"{target} must return a trilith.Identity or None, got {type(identity).__name__}")
    try:
        values: dict[str, Any] = msgspec.to_builtins(identity)
    except TypeError as error:
        raise ServiceError(f"{target} returned claims that are no JSON: {error}") from error
    return values


def access_spec(access: object) -> ServiceSpec:
    """The declaration of an access service."""
    spec: ServiceSpec = getattr(access, SERVICE_ATTRIBUTE)
    return spec
