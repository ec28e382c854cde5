"""`trilith.depends` and `trilith.model`: class attributes that stand for another service and for a model.

Rule 1: what they give is found when it is first read, through the resolver that the instance was made with; an instance
that somebody made by hand (`Ocr()` in a unit test) gets one that builds everything in this process.
Rule 2: a test may put its own object there: `ocr.detector = FakeDetector()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, overload

from trilith.errors import InvalidConfig
from trilith.service.ports import Placement, Resolver
from trilith.service.proxy import ModelProxy, ServiceProxy
from trilith.service.spec import ServiceSpec, spec_of

_WIRING: Final = "__trilith_wiring__"
_PLACEMENTS: Final = ("node", "replica")

Other = TypeVar("Other")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True, slots=True)
class Wiring:
    """What an instance was made with.

    Attributes:
        resolver: finds its dependencies and models.
        home: the loop that calls to them must run on; None when any will do.
    """

    resolver: Resolver
    home: asyncio.AbstractEventLoop | None


def wire(instance: object, wiring: Wiring) -> None:
    """Says where the dependencies of an instance come from. Call it before `__init__` runs."""
    vars(instance)[_WIRING] = wiring


def wiring_of(instance: object) -> Wiring:
    """How an instance was wired; in process, when nobody said."""
    found = vars(instance).get(_WIRING)
    if not isinstance(found, Wiring):
        # The in-process resolver makes instances of services, so it stands on this file.
        from trilith.service.local import InProcessResolver, source_folder

        found = Wiring(InProcessResolver(source_folder=source_folder(type(instance))), None)
        wire(instance, found)
    return found


class _ClassAttribute:
    """What `trilith.depends` and `trilith.model` make. Used by itself, it says where it belongs."""

    def misplaced(self, where: str) -> str:
        """What to do about one that stands in another place than the body of a class."""
        return (
            f"{self!r} was used {where}. trilith.depends(...) and trilith.model(...) stand in the body of a service"
            " class, `name = trilith.model(...)`, and are used through its instance, `self.name`. A service that is a"
            " function has none: make it a class with one method"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(self.misplaced(f"by itself (its {name!r} was asked for)"))

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(self.misplaced("by itself (it was called)"))


class Dependency(_ClassAttribute):
    """A class attribute that stands for another service. Made by `trilith.depends`."""

    def __init__(self, spec: ServiceSpec) -> None:
        self.spec = spec
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        wiring = wiring_of(instance)
        proxy = ServiceProxy(self.spec, wiring.resolver.service(self.spec), wiring.home)
        vars(instance)[self._name] = proxy  # found first from now on: this descriptor has no __set__
        return proxy

    def __repr__(self) -> str:
        return f"<depends on {self.spec.name}>"


class ModelReference(_ClassAttribute):
    """A class attribute that stands for a model. Made by `trilith.model`."""

    def __init__(self, reference: str, placement: Placement) -> None:
        self.reference = reference
        self.placement = placement
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        wiring = wiring_of(instance)
        proxy = ModelProxy(self.reference, wiring.resolver.model(self.reference, self.placement), wiring.home)
        vars(instance)[self._name] = proxy
        return proxy

    def __repr__(self) -> str:
        return f"<model {self.reference}, placement {self.placement}>"


def check_attributes(instance: object) -> None:
    """Refuses what the constructor of an instance put where only the body of its class may put it.

    Raises:
        InvalidConfig: it set an attribute to the result of `trilith.depends` or `trilith.model`.
    """
    for name, value in vars(instance).items():
        if isinstance(value, _ClassAttribute):
            kind = type(instance).__name__
            raise InvalidConfig(value.misplaced(f"in the constructor of {kind} (self.{name} = ...)"))


class FunctionCaller(Protocol[Parameters, Result]):
    """What stands for a service that is one function: it is called as the function is."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """The function's result."""
        ...


@overload
def depends(service: type[Other]) -> Other: ...  # type: ignore[overload-overlap]  # a class is a callable too
@overload
def depends(service: Callable[Parameters, Result]) -> FunctionCaller[Parameters, Result]: ...
def depends(service: Any) -> Any:
    """Stands for another service, as a class attribute.

    In an async method `await self.detector.detect(image)`; in a synchronous one `self.detector.detect(image)` waits.
    A batched method takes one item and gives its one result.

    Args:
        service: a class or function that is declared with `@trilith.service`.

    Raises:
        InvalidConfig: it is not a service.
    """
    if isinstance(service, str):
        raise InvalidConfig(
            f"trilith.depends takes a service itself, not its name: write trilith.depends({service}), got {service!r};"
            " import it where it stands in another file"
        )
    try:
        spec = spec_of(service)
    except InvalidConfig as error:
        raise InvalidConfig(f"trilith.depends takes a service: {error.message}") from error
    return Dependency(spec)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def model(reference: str, *, placement: Placement = "node") -> ModelProxy:
    """Stands for a model, as a class attribute.

    Args:
        reference: the name of a model's folder. It is looked for in the folders that `trilith serve --models` names,
            then in `models/` beside the file of the served class, then in `models/` of the current folder.
        placement: `node`: hosted once on each machine, by the runtime; `replica`: loaded in each replica's process.

    Raises:
        InvalidConfig: an argument is wrong.
    """
    if not _is_name(reference):
        raise InvalidConfig(
            f"trilith.model takes the name of a model, like trilith.model('ocr-rec'), got {reference!r}"
        )
    if placement not in _PLACEMENTS:
        raise InvalidConfig(f"trilith.model({reference!r}): placement must be 'node' or 'replica', got {placement!r}")
    return cast("ModelProxy", ModelReference(reference, placement))
