"""What a service needs of the world: somebody who reaches other services, and somebody who runs models.

A worker process implements these over its gateway connection; `local.py` implements them in process. Both behave the
same to the user's code.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from trilith.core.model import ModelSignature
    from trilith.core.tensor import Array
    from trilith.service.spec import ServiceSpec

Placement = Literal["node", "replica"]


class ServiceCaller(Protocol):
    """Calls the methods of one service, wherever it runs."""

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result.

        Raises:
            TrilithError: the call failed, or the method raised.
        """
        ...

    def stream(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """The items of a method that streams. The call begins with the first step, and is taken back by closing it.

        Raises:
            TrilithError: as `call`, at any step.
        """
        ...


@runtime_checkable
class DirectCaller(Protocol):
    """A `ServiceCaller` that can also run synchronous methods in the thread that calls, without an event loop."""

    def call_here(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a synchronous method; blocks until it is there. Of one that streams, its iterator."""
        ...


class ModelCaller(Protocol):
    """Runs one model, wherever it is hosted."""

    async def signature(self) -> ModelSignature:
        """What the model takes and gives; loads it when that is needed to know. No outputs: it could not be loaded."""
        ...

    async def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, in the model's order. Shapes include the batch dimension where the model batches."""
        ...


class Resolver(Protocol):
    """Finds what a service refers to. Called when an attribute is first read, never for each call."""

    def service(self, spec: ServiceSpec) -> ServiceCaller:
        """Who calls that service."""
        ...

    def model(self, reference: str, placement: Placement) -> ModelCaller:
        """Who runs that model.

        Raises:
            UnknownReference: nothing has that name; the message lists where was looked.
        """
        ...
