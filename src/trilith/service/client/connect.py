"""`trilith.client`: reads what a server offers and makes an object with those methods."""

from __future__ import annotations

import abc
import copy
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import msgspec

from trilith.errors import Unsupported
from trilith.service.client.encoding import Body, decode_answer, decode_error, encode_arguments
from trilith.service.client.operations import Operation, read_operations

if TYPE_CHECKING:
    from trilith.service.client.transport import Answered, AsyncTransport, SyncTransport


class _Methods(abc.ABC):
    """Holds what a server offers, and binds it as methods."""

    def __init__(self, url: str, operations: list[Operation], timeout_s: float | None) -> None:
        self._url = url
        self._operations = operations
        self._timeout_s = timeout_s
        self._bind_all()

    def _bind_all(self) -> None:
        for operation in self._operations:
            setattr(self, operation.method, self._bind(operation))

    @abc.abstractmethod
    def _bind(self, operation: Operation) -> Callable[..., Any]:
        """A function that calls one method."""

    def with_timeout(self, timeout_s: float) -> Self:
        """The same client and connections, with another time limit (seconds) for each call."""
        other = copy.copy(self)
        other._timeout_s = timeout_s
        other._bind_all()
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls a service that is one function, or a class's `__call__`."""
        if len(self._operations) == 1:
            return vars(self)[self._operations[0].method](*args, **kwargs)
        if "__call__" in vars(self):
            return vars(self)["__call__"](*args, **kwargs)
        raise TypeError(f"{self!r} is called by a method")

    def __getattr__(self, name: str) -> Any:
        methods = ", ".join(operation.method for operation in vars(self).get("_operations", ()))
        raise AttributeError(f"the service at {vars(self).get('_url')} has no method {name!r}; it has {methods}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(operation.method for operation in self._operations)})

    def __repr__(self) -> str:
        return f"<client of {self._url}: {', '.join(operation.method for operation in self._operations)}>"


def _described(call: Callable[..., Any], operation: Operation, signature: inspect.Signature) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = operation.method
    call.__doc__ = operation.documentation
    call.__signature__ = signature  # type: ignore[attr-defined]  # what inspect.signature looks for
    return call


def _body(operation: Operation, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
    return encode_arguments(operation, dict(signature.bind(*args, **kwargs).arguments))


def _value(operation: Operation, answered: Answered) -> Any:
    status, content_type, body, retry_after = answered
    if status >= 400:
        raise decode_error(status, body, retry_after)
    return decode_answer(operation, content_type, body)


class Client(_Methods):
    """Calls the methods of one server and waits for each. Made by `trilith.client(url)`."""

    def __init__(
        self, url: str, operations: list[Operation], transport: SyncTransport, timeout_s: float | None
    ) -> None:
        self._transport = transport
        super().__init__(url, operations, timeout_s)

    def _bind(self, operation: Operation) -> Callable[..., Any]:
        signature = operation.signature()

        def call(*args: Any, **kwargs: Any) -> Any:
            body = _body(operation, signature, args, kwargs)
            return _value(operation, self._transport.post(operation.path, body, self._timeout_s))

        return _described(call, operation, signature)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()  # not `self.close`: the service may have a method of that name


class AsyncClient(_Methods):
    """Calls the methods of one server, on an event loop. Made by `trilith.client(url, asynchronous=True)`."""

    def __init__(
        self, url: str, operations: list[Operation], transport: AsyncTransport, timeout_s: float | None
    ) -> None:
        self._transport = transport
        super().__init__(url, operations, timeout_s)

    def _bind(self, operation: Operation) -> Callable[..., Any]:
        signature = operation.signature()

        async def call(*args: Any, **kwargs: Any) -> Any:
            body = _body(operation, signature, args, kwargs)
            return _value(operation, await self._transport.post(operation.path, body, self._timeout_s))

        return _described(call, operation, signature)

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()


@overload
def client(url: str, *, asynchronous: Literal[False] = False, timeout_s: float | None = None) -> Client: ...
@overload
def client(url: str, *, asynchronous: Literal[True], timeout_s: float | None = None) -> AsyncClient: ...
def client(url: str, *, asynchronous: bool = False, timeout_s: float | None = None) -> Client | AsyncClient:
    """A client of a running service. It asks the server once, now, what it offers.

    Args:
        url: the server's address, `http://127.0.0.1:8000`.
        asynchronous: whether methods are awaited.
        timeout_s: time limit of each call in seconds, told to the server; None for the method's own limit.

    Raises:
        NoReadyReplica: nothing answers there.
        Unsupported: it is not a service of Trilith.
    """
    from trilith.service.client.transport import AsyncTransport, SyncTransport

    base = url.rstrip("/")
    transport = SyncTransport(base)
    try:
        status, _, body, _ = transport.get("/openapi.json")
        if status != 200:
            raise Unsupported(f"{base}/openapi.json answered {status}: not a service of Trilith")
        try:
            document = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise Unsupported(f"{base}/openapi.json is not JSON: {error}") from error
        operations = read_operations(document, base)
    except BaseException:
        transport.close()
        raise
    if asynchronous:
        transport.close()
        return AsyncClient(base, operations, AsyncTransport(base), timeout_s)
    return Client(base, operations, transport, timeout_s)
