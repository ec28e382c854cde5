"""What a user may say about a service, a method and a batch: frozen values, checked where they are written.

Rule: an option that has no effect does not exist, and an unknown one is an error that lists the known ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self, TypeVar

from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig
from trilith.service.command.options import Command, read_command
from trilith.service.hints import option_hint
from trilith.wire.batches import LARGEST_BATCH

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_PROTO: Final = re.compile(r"[^\0]+\.(?:proto|binpb|desc|pb)")
_RPC: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_PATH_PARAMETER: Final = re.compile(r"\{[^{}/]*\}|<[^<>/]*>|/:[A-Za-z_]\w*")
_ROUTE: Final = re.compile(r"/[A-Za-z0-9_./~-]*")
_DEFAULT_THREADS: Final = 4
_DEFAULT_TIMEOUT_S: Final = 60.0
_DEFAULT_MAX_WAITING: Final = 1000
_MAX_THREADS: Final = 1024
_MAX_CONCURRENCY: Final = 4096  # calls in flight on one connection: see `trilith.net.transport`
_MAX_CORES: Final = 65536
_LONGEST_S: Final = 86400.0 * 365


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidConfig(f"{name} must be a whole number from {low} to {high}, got {value!r}")


def _positive(name: str, value: object, most: float, *, zero: bool = False) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most or (value == 0 and not zero):  # type: ignore[operator]  # a number
        least = "of at least" if zero else "above"
        raise InvalidConfig(f"{name} must be a number {least} 0 and at most {plain_number(most)}, got {value!r}")


def check_timeout(name: str, value: object) -> None:
    """Looks at a time limit in seconds.

    Raises:
        InvalidConfig: it is none; the message begins with `name`.
    """
    _positive(name, value, _LONGEST_S)


def is_text(value: object, pattern: re.Pattern[str]) -> bool:
    """Whether it is a text of that pattern."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def check_names(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Looks at the names of options.

    Raises:
        InvalidConfig: there are none of some of them; the message names all, and what was meant where that is known.
    """
    unknown = sorted(set(given) - set(known))
    if unknown:
        several = " and ".join(repr(name) for name in unknown)
        hints = "".join(dict.fromkeys(option_hint(name, known) for name in unknown))
        raise InvalidConfig(f"{what} has no option {several}; it has {', '.join(known)}{hints}")


class _NamedOptions:
    """Has a class say which options it has when it is given others."""

    __slots__ = ()

    def __new__(cls, *values: Any, **named: Any) -> Self:
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # those below are dataclasses
        if values:
            raise InvalidConfig(f"trilith.{cls.__name__} takes its options by name: {', '.join(known)}")
        check_names(f"trilith.{cls.__name__}", named, known)
        return super().__new__(cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(_NamedOptions):
    """Joins single calls of a method into lists. A batch leaves as soon as an instance is free.

    Attributes:
        max_size: most calls in one batch, up to 4096. Fewer leave together when they are large: one frame takes 1 GiB.
        max_wait_ms: how long an under-full batch may wait for more calls, in milliseconds. 0 never waits to fill.
            None waits for those whose calls were just answered, a fraction of the time that a batch takes and only
            where that is seen to get more done.
    """

    max_size: int = 8
    max_wait_ms: float | None = None

    def __post_init__(self) -> None:
        _whole("batch: max_size", self.max_size, 1, LARGEST_BATCH)
        if self.max_wait_ms is not None:
            _positive("batch: max_wait_ms", self.max_wait_ms, _LONGEST_S * 1e3, zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What `@trilith.service(...)` takes.

    Attributes:
        name: the service's name in routes, logs and metrics; "" for the name of the class or function.
        replicas: worker processes.
        cpu: cores for the native libraries (OpenMP, BLAS, OpenCV) of one replica: they start no more threads than that;
            None leaves them as they are.
        timeout_s: seconds that a call may take, unless its method says otherwise.
        threads: threads in which a replica runs synchronous methods.
        concurrency: calls that one replica takes at a time; None: `threads` when all methods are synchronous, else 64;
            512 where applications are mounted.
        max_waiting: how many calls may wait while no replica has room; one more is refused with `queue_full`. Each
            batched method has a queue of that bound for itself, all other methods share one.
        health_interval_s: seconds between two questions to `__is_ready__` and `__is_alive__`, and two looks at mounts
            and middleware, where there are any.
        health_timeout_s: seconds in which they have to answer.
        health_failures: times in a row that `__is_alive__` says no before the process is replaced.
        proto: a `.proto` file (or a descriptor set, `.binpb`) that is served as it stands over gRPC; the path is
            relative to the file that declares the service. "" for none.
        rpc: which gRPC service it is, `package.Service`; "" for the only one in `proto`, and without that for a name
            made of the service's own: `line_reader.LineReader`.
        cmd: the program that each replica runs and passes requests to, as a list of its arguments, or a
            `trilith.Command`; None for none.
        middleware: ASGI middleware round all that the service answers over HTTP, the outermost first: classes, classes
            with their options `(Class, {"name": value})`, or Starlette's `Middleware`.
    """

    name: str = ""
    replicas: int = 1
    cpu: float | None = None
    timeout_s: float = _DEFAULT_TIMEOUT_S
    threads: int = _DEFAULT_THREADS
    concurrency: int | None = None
    max_waiting: int = _DEFAULT_MAX_WAITING
    health_interval_s: float = 5.0
    health_timeout_s: float = 5.0
    health_failures: int = 3
    proto: str = ""
    rpc: str = ""
    cmd: Command | Sequence[str] | None = None
    middleware: Sequence[Any] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "cmd", read_command(self.cmd))
        if isinstance(self.cmd, Command) and self.cmd.port and self.replicas != 1:
            raise InvalidConfig(
                f"service: the processes of replicas={self.replicas!r} cannot all have port {self.cmd.port}: leave out"
                " port= of cmd"
            )
        if self.name != "" and not is_text(self.name, _NAME):
            raise InvalidConfig(f"service: name must be letters, digits, '_', '-' or '.', got {self.name!r}")
        _whole("service: replicas", self.replicas, 1, 65536)
        if self.cpu is not None:
            _positive("service: cpu", self.cpu, _MAX_CORES)
        _positive("service: timeout_s", self.timeout_s, _LONGEST_S)
        _whole("service: threads", self.threads, 1, _MAX_THREADS)
        if self.concurrency is not None:
            _whole("service: concurrency", self.concurrency, 1, _MAX_CONCURRENCY)
        _whole("service: max_waiting", self.max_waiting, 1, 1 << 20)
        _positive("service: health_interval_s", self.health_interval_s, _LONGEST_S)
        _positive("service: health_timeout_s", self.health_timeout_s, _LONGEST_S)
        _whole("service: health_failures", self.health_failures, 1, 1000)
        if self.proto != "" and not is_text(self.proto, _PROTO):
            raise InvalidConfig(
                f"service: proto must be the path of a .proto file, or of a descriptor set (.binpb), got {self.proto!r}"
            )
        if self.rpc != "" and not is_text(self.rpc, _RPC):
            raise InvalidConfig(
                f"service: rpc must be the full name of a gRPC service, package.Service, got {self.rpc!r}"
            )
        _check_middleware(self.middleware)
        if self.rpc and not self.proto and "." not in self.rpc:
            raise InvalidConfig(f"service: rpc={self.rpc!r} has no package: write rpc='package.{self.rpc}'")


def _check_middleware(given: object) -> None:
    if not isinstance(given, (list, tuple)):
        raise InvalidConfig(f"service: middleware must be a list, got {given!r:.100}")
    for entry in given:
        with_options = (
            isinstance(entry, tuple) and len(entry) == 2 and callable(entry[0]) and isinstance(entry[1], dict)
        )
        if not (with_options or callable(entry) or callable(getattr(entry, "cls", None))):
            raise InvalidConfig(
                "service: middleware must be classes of ASGI middleware, or pairs of a class and its options,"
                f" got {entry!r:.100}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """What `@trilith.api(...)` takes.

    Attributes:
        route: path of the method; None for `/` and the method's name.
        batch: joins single calls into lists; None for no batching.
        idempotent: whether a call may run twice: it may then be retried on another replica.
        timeout_s: seconds that a call may take; None for the service's.
    """

    route: str | None = None
    batch: Batch | None = None
    idempotent: bool = False
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.route is not None and not is_text(self.route, _ROUTE):
            raise InvalidConfig(f"api: route must be {_wanted_route(self.route)}, got {self.route!r}")
        if self.batch is not None and not isinstance(self.batch, Batch):
            raise InvalidConfig(f"api: batch must be trilith.Batch(max_size=..., max_wait_ms=...), got {self.batch!r}")
        if not isinstance(self.idempotent, bool):
            raise InvalidConfig(f"api: idempotent must be True or False, got {self.idempotent!r}")
        if self.timeout_s is not None:
            _positive("api: timeout_s", self.timeout_s, _LONGEST_S)


def _wanted_route(route: object) -> str:
    if isinstance(route, str) and _PATH_PARAMETER.search(route):
        return (
            "a path without parameters (the values of a call are in its body or query string; for such paths mount an"
            " application: @trilith.mount)"
        )
    if isinstance(route, str) and route.startswith("/"):
        return "a path of letters, digits, '_', '.', '~', '-' and '/'"
    return "a path that begins with '/'"


Options = TypeVar("Options", ServiceOptions, ApiOptions)


def read_options(kind: type[Options], decorator: str, given: Mapping[str, Any]) -> Options:
    """The options that a decorator was called with.

    Raises:
        InvalidConfig: an option is unknown or its value is wrong.
    """
    check_names(decorator, given, [field.name for field in fields(kind)])
    return kind(**given)
