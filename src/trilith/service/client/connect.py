"""`trilith.client`: reads what a server offers and makes an object with those methods."""

from __future__ import annotations

import abc
import asyncio
import copy
import difflib
import inspect
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, overload

import msgspec

from trilith.errors import TrilithError, Unsupported
from trilith.service.client.address import path_hint, server_address
from trilith.service.client.encoding import Body, decode_answer, decode_error, encode_arguments, is_told
from trilith.service.client.late import LateCall
from trilith.service.client.meant import unknown_options, with_key
from trilith.service.client.operations import Operation, read_operations
from trilith.service.client.patience import Patience, checked_timeout
from trilith.service.client.retries import RETRIES, RetryPolicy, Tries, checked_retries, not_begun
from trilith.service.client.streams import AsyncStreams, SyncStreams
from trilith.service.failure import Calling

if TYPE_CHECKING:
    from trilith.service.client.retries import Answered
    from trilith.service.client.transport import AsyncTransport, SyncTransport

DOCUMENT: Final = "/openapi.json"
"""Where a server says what it offers."""

_PUBLIC_HOME: Final = "trilith"
_SAYS_WHY: Final = (401, 403, 429, 503)
_GRPC_PORT_SAYS: Final = (400, 415, 505)  # to HTTP/1.1, which is none of gRPC's


class _Methods(abc.ABC):
    """Binds what a server offers as methods."""

    def __init__(self, url: str, timeout_s: float | None, retries: int) -> None:
        self._url = url
        self._operations: list[Operation] = []
        self._timeout_s = timeout_s
        self._retries = retries

    def _offer(self, operations: list[Operation]) -> None:
        self._operations = operations
        for operation in operations:
            setattr(self, operation.method, self._bind(operation))

    def _tries(self, operation: Operation) -> Tries:
        patience = Patience(asked_s=self._timeout_s, method_s=operation.timeout_s)
        policy = RetryPolicy(retries=self._retries, idempotent=operation.idempotent)
        return Tries(policy, patience, now=time.monotonic())

    @abc.abstractmethod
    def _bind(self, operation: Operation) -> Callable[..., Any]:
        """A function that calls one method."""

    def with_timeout(self, timeout_s: float) -> Self:
        """The same client and connections, with another time limit (seconds) for each call.

        Raises:
            InvalidConfig: it is none.
        """
        other = copy.copy(self)
        other._timeout_s = checked_timeout(timeout_s)
        other._offer(self._operations)
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls a service that is one function, or a class's `__call__`."""
        if len(self._operations) == 1:
            return vars(self)[self._operations[0].method](*args, **kwargs)
        if "__call__" in vars(self):
            return vars(self)["__call__"](*args, **kwargs)
        methods = ", ".join(operation.method for operation in self._operations)
        raise TypeError(f"{self!r} is called by a method: {methods}")

    def __getattr__(self, name: str) -> Any:
        methods = ", ".join(operation.method for operation in vars(self).get("_operations", ()))
        raise AttributeError(f"the service at {vars(self).get('_url')} has no method {name!r}; it has {methods}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(operation.method for operation in self._operations)})

    def __repr__(self) -> str:
        offered = ", ".join(operation.method for operation in self._operations)
        return f"<client of {self._url}: {offered or 'nothing was asked yet'}>"


def _described(call: Callable[..., Any], operation: Operation, signature: inspect.Signature) -> Callable[..., Any]:
    call.__name__ = call.__qualname__ = operation.method
    call.__module__ = _PUBLIC_HOME
    call.__doc__ = operation.documentation
    call.__signature__ = signature  # type: ignore[attr-defined]  # what inspect.signature looks for
    return call


def bound_body(
    operation: Operation, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Body:
    """What is sent for a call with those arguments.

    Raises:
        TypeError: they do not fit the method.
        InvalidInput: one is of a type that cannot be sent.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as wrong:
        problem = str(wrong)
        unknown = next((name for name in kwargs if name not in signature.parameters), None)
        if unknown is not None:  # Python names what is missing first, and of `nam="Ann"` that is the lesser news
            near = difflib.get_close_matches(unknown, signature.parameters, n=1)
            guess = f" (did you mean {near[0]!r}?)" if near else ""
            problem = f"got an unexpected keyword argument {unknown!r}{guess}"
        raise TypeError(f"{operation.method}: {problem}; it is {operation.method}{signature}") from None
    return encode_arguments(operation, dict(bound.arguments))


def _value(operation: Operation, answered: Answered) -> Any:
    status, content_type, body, refused = answered
    if status >= 400:
        error = decode_error(status, body, refused.retry_after)
        raise not_begun(error) if refused.not_begun else error
    return decode_answer(operation, content_type, body)


def operations_of(url: str, answered: Answered) -> list[Operation]:
    """The methods that a server's answer to `DOCUMENT` describes.

    Raises:
        Unsupported: it is none of Trilith's.
        TrilithError: the server does not say, and why: it wants a key, or has no time now.
    """
    status, _, body, refused = answered
    if status in _SAYS_WHY and is_told(body):
        raise decode_error(status, body, refused.retry_after)
    if status == 404 and is_told(body) and not path_hint(url):
        says = decode_error(status, body, None).message
        raise Unsupported(
            f"{url} is Trilith and has no service: {says}. Models alone are asked over "
            "the Open Inference Protocol, by tritonclient for one (docs/runtime.md); gRPC and metrics have other ports"
        )
    if status != 200:
        grpc = "; if this is the gRPC port, write that of HTTP" if status in _GRPC_PORT_SAYS else ""
        raise Unsupported(f"{url}/openapi.json answered {status}: not a service of Trilith{grpc}{path_hint(url)}")
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Unsupported(f"{url}/openapi.json is not JSON: {error}{path_hint(url)}") from error
    return read_operations(document, url)


class Client(_Methods):
    """Calls the methods of one server and waits for each. Made by `trilith.client(url)`."""

    def __init__(self, url: str, transport: SyncTransport, timeout_s: float | None, retries: int = RETRIES) -> None:
        super().__init__(url, timeout_s, retries)
        self._transport = transport
        with Calling(f"the server at {url}"):
            self._offer(operations_of(url, transport.get(DOCUMENT)))

    def _bind(self, operation: Operation) -> Callable[..., Any]:
        signature = operation.signature()
        calling = Calling(f"{operation.method} of {self._url}")
        if operation.streams or operation.taken is not None:
            streams = SyncStreams(operation, self._transport, calling, lambda: self._tries(operation))
            return _described(streams.bound(signature), operation, signature)

        def call(*args: Any, **kwargs: Any) -> Any:
            with calling:
                body = bound_body(operation, signature, args, kwargs)
                tries = self._tries(operation)
                while True:
                    try:
                        patience = tries.patience(time.monotonic())
                        return _value(operation, self._transport.post(operation.path, body, patience))
                    except TrilithError as error:
                        time.sleep(tries.wait_s(error, now=time.monotonic(), chance=random.random()))

        return _described(call, operation, signature)

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()


class _Discovery:
    """Asks a server once what it offers: whoever comes meanwhile waits. A failed attempt is made again."""

    def __init__(self, url: str, transport: AsyncTransport) -> None:
        self._url = url
        self._transport = transport
        self._lock = asyncio.Lock()
        self._found: list[Operation] | None = None

    async def operations(self) -> list[Operation]:
        async with self._lock:
            if self._found is None:
                with Calling(f"the server at {self._url}"):
                    self._found = operations_of(self._url, await self._transport.get(DOCUMENT))
            return self._found


class AsyncClient(_Methods):
    """Calls the methods of one server, on an event loop. Made by `trilith.client(url, asynchronous=True)`.

    What the server offers is asked by `async with`, or by the first call: until then any name is taken for a method.
    """

    def __init__(self, url: str, transport: AsyncTransport, timeout_s: float | None, retries: int = RETRIES) -> None:
        super().__init__(url, timeout_s, retries)
        self._transport = transport
        self._discovery = _Discovery(url, transport)

    async def _discover(self) -> None:
        if not self._operations:
            self._offer(await self._discovery.operations())

    def _bind(self, operation: Operation) -> Callable[..., Any]:
        signature = operation.signature()
        calling = Calling(f"{operation.method} of {self._url}")
        if operation.streams or operation.taken is not None:
            streams = AsyncStreams(operation, self._transport, calling, lambda: self._tries(operation))
            return _described(streams.bound(signature), operation, signature)

        async def call(*args: Any, **kwargs: Any) -> Any:
            with calling:
                body = bound_body(operation, signature, args, kwargs)
                tries = self._tries(operation)
                while True:
                    try:
                        patience = tries.patience(time.monotonic())
                        return _value(operation, await self._transport.post(operation.path, body, patience))
                    except TrilithError as error:
                        await asyncio.sleep(tries.wait_s(error, now=time.monotonic(), chance=random.random()))

        return _described(call, operation, signature)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._operations:
            return super().__getattr__(name)

        async def found(*args: Any, **kwargs: Any) -> Any:
            await self._discover()
            return getattr(self, name)(*args, **kwargs)

        return lambda *args, **kwargs: LateCall(lambda: found(*args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls a service that is one function, or a class's `__call__`."""
        if self._operations:
            return super().__call__(*args, **kwargs)

        async def found() -> Any:
            await self._discover()
            return super(AsyncClient, self).__call__(*args, **kwargs)

        return LateCall(found)

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    def __enter__(self) -> NoReturn:
        raise TypeError("a client that is asynchronous is left by `async with`, not by `with`")

    def __exit__(self, *_: object) -> None:
        """There, so that `with` gets as far as the sentence above."""

    async def __aenter__(self) -> Self:
        try:
            await self._discover()
        except BaseException:
            await self._transport.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()


@overload
def client(
    url: str,
    *,
    asynchronous: Literal[False] = False,
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    tls_ca: str | Path | None = None,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
    connections: int = 100,
    websockets: bool = False,
    retries: int = RETRIES,
) -> Client: ...
@overload
def client(
    url: str,
    *,
    asynchronous: Literal[True],
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    tls_ca: str | Path | None = None,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
    connections: int = 100,
    websockets: bool = False,
    retries: int = RETRIES,
) -> AsyncClient: ...
def client(
    url: str,
    *,
    asynchronous: bool = False,
    timeout_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    tls_ca: str | Path | None = None,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
    connections: int = 100,
    websockets: bool = False,
    retries: int = RETRIES,
    **unknown: object,
) -> Client | AsyncClient:
    """A client of a running service. It asks the server once what it offers.

    Args:
        url: the server's address, `http://127.0.0.1:8000`; `http://` may be left out.
        asynchronous: whether methods are awaited. The server is asked by `async with` or the first call then, else now.
        timeout_s: time limit of each call in seconds, told to the server, which ends the call by then; the client
            itself gives up a quarter of a second and a tenth of it later. None for the method's own limit; the client
            gives up when it hears nothing for longer than that.
        headers: sent with each request, `{"authorization": "Bearer ..."}`; what HTTP does not allow is refused. Without
            a key among them, that of the environment variable TRILITH_API_KEY is shown, if it is set.
        tls_ca: PEM file of the authorities that are trusted; None for those that the environment variable SSL_CERT_FILE
            names, or else the public ones.
        tls_certificate: PEM file with the certificate chain that this client shows.
        tls_key: PEM file with its private key; None when the certificate's file has it.
        connections: how many calls may be under way at a time; those beyond wait.
        websockets: a method that takes and gives items at once is called over a websocket: for when a proxy in between
            holds requests until they are whole. Items of bytes stay apart, then.
        retries: how often a call is sent again, within its time: one that was provably not begun (no connection, or
            the server says so), and of an idempotent method one whose replica was lost or full. 0 for never.

    Raises:
        NoReadyReplica: nothing answers there.
        Unsupported: it is not a service of Trilith.
        InvalidConfig: the URL, the time limit, a header, a PEM file or one of the numbers is none.
        TypeError: there is no option of that name.
    """
    from trilith.service.client.options import ConnectionOptions
    from trilith.service.client.transport import AsyncTransport, SyncTransport

    if unknown:
        raise TypeError(unknown_options(unknown, list(inspect.signature(client).parameters)[1:-1]))
    base = server_address(url)
    timeout_s = checked_timeout(timeout_s)
    retries = checked_retries(retries)
    options = ConnectionOptions(
        headers=with_key(headers or {}),
        tls_ca=tls_ca,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        connections=connections,
        websockets=websockets,
    )
    if asynchronous:
        return AsyncClient(base, AsyncTransport(base, options), timeout_s, retries)
    transport = SyncTransport(base, options)
    try:
        return Client(base, transport, timeout_s, retries)
    except BaseException:
        transport.close()
        raise
