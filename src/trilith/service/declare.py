"""`@trilith.service` and `@trilith.api`: what they put on a class, and what they refuse.

Rule 1: a decorated class stays the class that it was, a decorated function the function. The declaration is one
attribute beside it. Only a batched method or function changes: it takes what its callers give (`batched.py`).
Rule 2: misuse is refused here, at import time, not at the first request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from trilith.errors import InvalidConfig
from trilith.service.batched import BatchedFunction, BatchedMethod, BatchFunction, BatchMethod
from trilith.service.command.declared import ask_for_url, with_command
from trilith.service.command.options import Command
from trilith.service.depends import Dependency, ModelReference
from trilith.service.health import IS_ALIVE, IS_READY, check_health, has_hook
from trilith.service.lifecycle import check_lifecycle
from trilith.service.mounts.spec import MountSpec, mount_in
from trilith.service.names import is_client_name, is_own_path
from trilith.service.options import ApiOptions, Batch, ServiceOptions, read_options
from trilith.service.signature import read_signature
from trilith.service.spec import API_ATTRIBUTE, SERVICE_ATTRIBUTE, MethodSpec, ServiceSpec

Target = TypeVar("Target", bound=Callable[..., Any])


@overload
def api(function: Target, /) -> Target: ...
@overload
def api(
    *, route: str | None = None, batch: None = None, idempotent: bool = False, timeout_s: float | None = None
) -> Callable[[Target], Target]: ...
@overload
def api(
    *, batch: Batch, route: str | None = None, idempotent: bool = False, timeout_s: float | None = None
) -> BatchMethod: ...
def api(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a method of a service class public.

    Args:
        function: the method, when used without brackets.
        options: route, batch, idempotent, timeout_s: see `ApiOptions`.

    Raises:
        InvalidConfig: an option is unknown or wrong, or it does not stand on a method.
    """
    read = read_options(ApiOptions, "@trilith.api", options)

    def decorate(target: Callable[..., Any]) -> Any:
        _check_method(target)
        declared: Any = target if read.batch is None else BatchedMethod(target)
        setattr(declared, API_ATTRIBUTE, read)
        return declared

    return decorate if function is None else decorate(function)


def _check_method(target: object) -> None:
    if isinstance(target, (staticmethod, classmethod, property)):
        raise InvalidConfig(f"@trilith.api stands on a plain method with `self`, not on a {type(target).__name__}")
    if isinstance(target, BatchedMethod) or hasattr(target, API_ATTRIBUTE):
        raise InvalidConfig(f"{target.__qualname__} is declared with @trilith.api twice; leave one out")  # type: ignore[attr-defined]
    if not inspect.isfunction(target):
        raise InvalidConfig(
            f"@trilith.api stands on a method of a class, got {target!r}; a class or function takes @trilith.service"
        )


@overload
def service(target: Target, /) -> Target: ...
@overload
def service(
    *,
    name: str = "",
    replicas: int = 1,
    cpu: float | None = None,
    timeout_s: float = ...,
    threads: int = ...,
    concurrency: int | None = None,
    max_waiting: int = ...,
    health_interval_s: float = ...,
    health_timeout_s: float = ...,
    health_failures: int = ...,
    proto: str = "",
    rpc: str = "",
    cmd: Sequence[str] | Command | None = None,
    middleware: Sequence[Any] = (),
    route: str | None = None,
    batch: None = None,
    idempotent: bool = False,
) -> Callable[[Target], Target]: ...
@overload
def service(
    *,
    batch: Batch,
    name: str = "",
    replicas: int = 1,
    cpu: float | None = None,
    timeout_s: float = ...,
    threads: int = ...,
    concurrency: int | None = None,
    max_waiting: int = ...,
    health_interval_s: float = ...,
    health_timeout_s: float = ...,
    health_failures: int = ...,
    proto: str = "",
    rpc: str = "",
    cmd: Sequence[str] | Command | None = None,
    middleware: Sequence[Any] = (),
    route: str | None = None,
    idempotent: bool = False,
) -> BatchFunction: ...
def service(target: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a class, or one function, a service. It stays the class or function that it was.

    Args:
        target: the class or function, when used without brackets.
        options: name, replicas, cpu, timeout_s, threads, concurrency, max_waiting, health_interval_s,
            health_timeout_s, health_failures, proto, rpc, cmd, middleware: see `ServiceOptions`. A function takes
            those of `@trilith.api` too.

    Raises:
        InvalidConfig: an option is unknown or wrong, or the class declares nothing that could be served.
    """

    def decorate(found: Callable[..., Any]) -> Any:
        if isinstance(found, type):
            spec = _class_spec(found, read_options(ServiceOptions, "@trilith.service", options))
        elif inspect.isfunction(found):
            spec = _function_spec(found, options)
        else:
            raise InvalidConfig(f"@trilith.service stands on a class or a function, got {found!r}")
        _read_early(spec)
        if isinstance(found, type):
            check_lifecycle(found)
            check_health(found)
        _check_health_options(spec, options)
        setattr(found, SERVICE_ATTRIBUTE, spec)
        if spec.is_function and any(method.options.batch for method in spec.methods.values()):
            return BatchedFunction(found)  # takes the function's attributes over, and with them the declaration
        return found

    return decorate if target is None else decorate(target)


def _check_health_options(spec: ServiceSpec, options: dict[str, Any]) -> None:
    given = next((name for name in options if name.startswith("health_")), None)
    asked = spec.command is not None or has_hook(spec.target, IS_READY) or has_hook(spec.target, IS_ALIVE)
    asked = asked or bool(spec.mounts or spec.options.middleware)  # whose lifespans are looked at
    if given is not None and not asked:
        raise InvalidConfig(
            f"{spec.name}: {given} has no effect in a service without {IS_READY}, {IS_ALIVE}, mounts and middleware"
        )


def _class_spec(target: type, options: ServiceOptions) -> ServiceSpec:
    if SERVICE_ATTRIBUTE in vars(target):
        raise InvalidConfig(f"{target.__name__} is declared with @trilith.service twice; leave one out")
    if not target.__dictoffset__:
        raise InvalidConfig(
            f"{target.__name__} has __slots__ and no __dict__, which a service class needs; leave __slots__ out"
        )
    _check_constructor(target)
    spec = ServiceSpec(target, with_command(target, options))
    for name, value in _members(target).items():
        if isinstance(value, Dependency):
            spec.dependencies[name] = value
        elif isinstance(value, ModelReference):
            spec.models[name] = value
        elif isinstance(declared := getattr(value, API_ATTRIBUTE, None), ApiOptions):
            spec.methods[name] = MethodSpec(name, spec, _definition(name, spec, value, declared), declared)
        elif (mount := mount_in(name, value, spec)) is not None:
            _add_mount(spec, mount)
    if spec.command is not None:
        from trilith.service.command.mounted import CommandMount  # loads what passes requests on

        ask_for_url(target)
        _add_mount(spec, CommandMount(spec, spec.command))
    if not spec.methods and not spec.mounts:
        raise InvalidConfig(f"{target.__name__} has no public method: put @trilith.api on at least one")
    return spec


def _add_mount(spec: ServiceSpec, mount: MountSpec) -> None:
    other = spec.mounts.setdefault(mount.path, mount)
    if other is not mount:
        raise InvalidConfig(
            f"{spec.name}: {other.name} and {mount.name} are mounted at the same path {mount.path}; mount one of them"
            " elsewhere"
        )


def _check_constructor(target: type) -> None:
    required = [
        parameter.name
        for parameter in list(inspect.signature(target.__init__).parameters.values())[1:]  # type: ignore[misc]
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        raise InvalidConfig(
            f"{target.__name__}: its constructor wants {', '.join(required)}. Constructors of services take no "
            "arguments, since the server makes the instances: give them defaults, or read them from the environment"
        )


def _definition(name: str, spec: ServiceSpec, value: Any, declared: ApiOptions) -> Callable[..., Any]:
    """The method as it is defined: over lists, when it is batched."""
    if declared.batch is None:
        function: Callable[..., Any] = value
        return function
    if not isinstance(value, BatchedMethod):
        raise InvalidConfig(f"{spec.name}.{name}: put @trilith.api(batch=...) above its other decorators")
    defined: Callable[..., Any] = value.batch
    return defined


def _members(target: type) -> dict[str, Any]:
    """Attributes by name, those of base classes first: what a subclass overrides keeps its place."""
    members: dict[str, Any] = {}
    for base in reversed(target.__mro__):
        members.update(vars(base))
    return members


def _function_spec(target: Callable[..., Any], options: dict[str, Any]) -> ServiceSpec:
    if hasattr(target, SERVICE_ATTRIBUTE):
        raise InvalidConfig(f"{target.__name__} is declared with @trilith.service twice; leave one out")
    of_method = {name: value for name, value in options.items() if name in ("route", "batch", "idempotent")}
    of_service = {name: value for name, value in options.items() if name not in of_method}
    if of_service.get("cmd") is not None:
        raise InvalidConfig(f"{target.__name__}: a service with cmd= is a class, not a function")
    spec = ServiceSpec(target, read_options(ServiceOptions, "@trilith.service", of_service))
    method_options = read_options(ApiOptions, "@trilith.service", of_method)
    spec.methods[target.__name__] = MethodSpec(target.__name__, spec, target, method_options)
    return spec


def _read_early(spec: ServiceSpec) -> None:
    """Reads all annotations now, so that a mistake shows where it stands. What names later classes is read later."""
    for method in spec.methods.values():
        try:
            read_signature(
                method.function,
                method.where,
                is_method=not spec.is_function,
                batched=method.options.batch is not None,
            )
        except NameError:
            continue  # `MethodSpec.signature` reads it when it is first asked, and reports what is still missing
    routes: dict[str, str] = {}
    for method in spec.methods.values():
        _check_name(method)
        for route in method.routes:
            if route in routes:
                raise InvalidConfig(
                    f"{spec.name}: {routes[route]} and {method.name} have the same route {route}; give one of them "
                    "another: @trilith.api(route='/...')"
                )
            routes[route] = method.name
    for mount in spec.mounts.values():
        if mount.path in routes:
            raise InvalidConfig(
                f"{spec.name}: {routes[mount.path]} has the path {mount.path}, and {mount.name} is mounted there; give"
                " one of them another. A method may have a path below a mount: it answers there"
            )


def _check_name(method: MethodSpec) -> None:
    """Refuses a name or a route that something else has."""
    where = method.service.name if method.service.is_function else f"{method.service.name}.{method.name}"
    if is_client_name(method.name):
        why = (
            "begins with an underscore" if method.name.startswith("_") else "is one that trilith.client has of its own"
        )
        raise InvalidConfig(
            f"{where}: the name {method.name!r} {why}, so no client could call it; name it otherwise. "
            "Its path can be what you like: route='/...'"
        )
    for route in method.routes:
        if is_own_path(route):
            raise InvalidConfig(
                f"{where}: the path {route} belongs to the server itself; name the method otherwise, or give it "
                "another path: route='/...'"
            )
