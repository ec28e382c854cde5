"""The declaration of a service, as data: what the decorators found, for everyone who serves, calls or describes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidConfig, NotFound
from trilith.service.command.options import Command
from trilith.service.options import ApiOptions, ServiceOptions
from trilith.service.signature import MethodSignature, read_signature

if TYPE_CHECKING:
    from trilith.service.depends import Dependency, ModelReference
    from trilith.service.mounts.spec import MountSpec
    from trilith.service.proto.binding import Binding

SERVICE_ATTRIBUTE: Final = "__trilith_service__"
API_ATTRIBUTE: Final = "__trilith_api__"
_DEFAULT_CONCURRENCY: Final = 64
_MOUNT_CONCURRENCY: Final = 512  # pages keep streams and websockets open that do nothing


class MethodSpec:
    """One public method of a service."""

    def __init__(self, name: str, service: ServiceSpec, function: Callable[..., Any], options: ApiOptions) -> None:
        self.name = name
        self.service = service
        self.function = function
        self.options = options

    @property
    def where(self) -> str:
        """`Ocr.read`, for messages."""
        return self.service.name if self.service.is_function else f"{self.service.name}.{self.name}"

    @cached_property
    def signature(self) -> MethodSignature:
        """What the annotations say; read when first asked, since they may name classes defined further down."""
        try:
            return read_signature(
                self.function,
                self.where,
                is_method=not self.service.is_function,
                batched=self.options.batch is not None,
            )
        except NameError as error:
            raise InvalidConfig(
                f"{self.where}: an annotation cannot be resolved: {error}; import the name where the method is defined"
            ) from error

    @cached_property
    def asynchronous(self) -> bool:
        """Whether it runs on an event loop: `async def`, or an asynchronous iterator is what it returns."""
        return inspect.iscoroutinefunction(self.function) or self.signature.asynchronous

    @property
    def timeout_s(self) -> float:
        """Seconds that a call may take."""
        own = self.options.timeout_s
        return self.service.options.timeout_s if own is None else own

    @property
    def routes(self) -> tuple[str, ...]:
        """The HTTP paths that lead here."""
        if self.options.route is not None:
            return (self.options.route,)
        if self.service.is_function:
            return (f"/{self.name}", "/")
        return ("/",) if self.name == "__call__" else (f"/{self.name}",)

    @property
    def documentation(self) -> str:
        """The docstring, dedented; "" when there is none."""
        return inspect.getdoc(self.function) or ""

    def __repr__(self) -> str:
        return f"<MethodSpec {self.where}>"


class ServiceSpec:
    """What a class or function declares.

    Attributes:
        target: the class or function itself.
        name: its name in routes, logs and metrics.
        options: what the decorator was called with.
        methods: public methods by name, in order of declaration.
        dependencies: attributes that are other services.
        models: attributes that are models.
        mounts: what answers HTTP by itself, by path.
    """

    def __init__(self, target: Callable[..., Any], options: ServiceOptions) -> None:
        self.target = target
        self.options = options
        self.is_function = not isinstance(target, type)
        self.name: str = options.name or target.__name__
        self.methods: dict[str, MethodSpec] = {}
        self.dependencies: dict[str, Dependency] = {}
        self.models: dict[str, ModelReference] = {}
        self.mounts: dict[str, MountSpec] = {}

    @property
    def command(self) -> Command | None:
        """The program that its replicas run, or None."""
        return self.options.cmd if isinstance(self.options.cmd, Command) else None

    @property
    def concurrency(self) -> int:
        """Calls that one replica takes at a time."""
        if self.options.concurrency is not None:
            return self.options.concurrency
        if self.mounts:
            return _MOUNT_CONCURRENCY
        if self.options.middleware:
            return _DEFAULT_CONCURRENCY  # what it takes is a request, not yet a method
        any_asynchronous = any(method.asynchronous for method in self.methods.values())
        return _DEFAULT_CONCURRENCY if any_asynchronous else self.options.threads

    @cached_property
    def grpc(self) -> Binding:
        """How it is served over gRPC, worked out when first asked for.

        Raises:
            InvalidConfig: its `.proto` cannot be read, or does not fit.
        """
        from trilith.service.proto.binding import bind  # protobuf is loaded for who asks

        return bind(self)

    @property
    def documentation(self) -> str:
        """The docstring, dedented; "" when there is none."""
        return inspect.getdoc(self.target) or ""

    def __repr__(self) -> str:
        return f"<ServiceSpec {self.name}: {', '.join(self.methods)}>"


def spec_of(target: object) -> ServiceSpec:
    """The declaration of a service class or function.

    Raises:
        InvalidConfig: it has none.
    """
    own = vars(target).get(SERVICE_ATTRIBUTE) if hasattr(target, "__dict__") else None
    if isinstance(own, ServiceSpec):
        return own
    if isinstance(target, type) and isinstance(getattr(target, SERVICE_ATTRIBUTE, None), ServiceSpec):
        raise InvalidConfig(
            f"{target.__name__} inherits from a service and is none itself: put @trilith.service on it too"
        )
    raise InvalidConfig(f"{getattr(target, '__name__', target)!r} is not a service: put @trilith.service on it")


def no_method(spec: ServiceSpec, name: str) -> NotFound:
    """The error for a call of a method that the service does not have."""
    return NotFound(f"service {spec.name} has no method {name!r}; it has {', '.join(spec.methods)}")
