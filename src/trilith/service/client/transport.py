"""HTTP for the client: the one file that imports httpx, and only when a client is made."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Generator, Iterable, Iterator
from typing import Any, Final, cast

import httpx

from trilith.core.plain_numbers import plain_number
from trilith.errors import ReplicaLost, TrilithError, Unsupported
from trilith.service.client import failures
from trilith.service.client.duplex import CONNECT_WITHIN_S, DuplexServer, calls_loop
from trilith.service.client.encoding import Body, decode_error
from trilith.service.client.heads import trace_of_caller
from trilith.service.client.options import ConnectionOptions
from trilith.service.client.patience import Patience, WholeCall, overdue
from trilith.service.client.places import Places
from trilith.service.client.retries import Answered, Refused, not_begun
from trilith.service.streams.bridge import BlockingItems, as_asynchronous
from trilith.wire.calls import NOT_BEGUN_HEADER

_LARGE_BYTES: Final = 1 << 20
"""A longer body goes over a connection of its own, so that an answer which comes in its midst is seen at once."""


def _reach(url: str, options: ConnectionOptions, places: Places) -> tuple[dict[str, Any], DuplexServer]:
    """What httpx takes, and the server of calls whose callers give items. InvalidConfig: see `ConnectionOptions`."""
    headers, tls = options.checked()
    limits = httpx.Limits(max_connections=options.connections, max_keepalive_connections=options.connections)
    verify = True if tls is None else tls
    given = {"base_url": url, "trust_env": False, "headers": headers, "verify": verify, "limits": limits}
    if tls is None and url.startswith("https://"):
        tls = httpx.create_ssl_context()
    own = tls if url.startswith("https://") else None
    return given, DuplexServer(url=url, headers=headers, tls=own, places=places)


def _request(body: Body, patience: Patience) -> dict[str, Any]:
    headers = {"accept": body.accept, **trace_of_caller()}
    if body.query:
        return {**_request(dataclasses.replace(body, query=()), patience), "params": list(body.query)}
    if patience.asked_s is not None:
        headers["trilith-timeout-ms"] = f"{plain_number(patience.asked_s * 1e3)}"
    timeout = httpx.Timeout(patience.step_s, connect=patience.within_s(CONNECT_WITHIN_S), pool=patience.asked_s)
    if body.fields:
        return {"headers": headers, "files": list(body.fields), "timeout": timeout}
    headers["content-type"] = body.content_type
    return {"headers": headers, "content": body.content, "timeout": timeout}


def encoded(body: Body) -> tuple[str, bytes]:
    """Content type and bytes of a body, as they are sent."""
    if not body.fields:
        return body.content_type, body.content
    request = httpx.Request("POST", "http://none", files=list(body.fields))
    return request.headers["content-type"], request.read()


def _large(body: Body) -> httpx.Request | None:
    """A body that is sent while its answer may come already, as httpx writes it; None: httpx sends it as well."""
    if body.fields:
        request = httpx.Request("POST", "http://none", files=list(body.fields))
    elif len(body.content) >= _LARGE_BYTES:
        request = httpx.Request(
            "POST", "http://none", content=body.content, headers={"content-type": body.content_type}
        )
    else:
        return None
    length = request.headers.get("content-length")
    return request if length is not None and int(length) >= _LARGE_BYTES else None


def _sent_large(
    server: DuplexServer, path: str, body: Body, request: httpx.Request, patience: Patience
) -> Coroutine[Any, Any, Answered]:
    headers = {"accept": body.accept, **{name: request.headers[name] for name in ("content-type", "content-length")}}
    return server.post(path, body.query, headers, cast(Iterable[bytes], request.stream), patience)


class _Sent(httpx.SyncByteStream):
    def __init__(self, body: Iterable[bytes], whole: WholeCall) -> None:
        self._body = body
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        return self._whole.pieces(self._body)


def _answer(response: httpx.Response, body: bytes | None = None) -> Answered:
    headers, body = response.headers, response.content if body is None else body
    refused = Refused(headers.get("retry-after"), headers.get(NOT_BEGUN_HEADER) == "1")
    return response.status_code, headers.get("content-type", ""), body, refused


def error_of(answered: Answered) -> TrilithError:
    """The error that an answer of a status of 400 or above tells."""
    status, _, body, refused = answered
    error = decode_error(status, body, refused.retry_after)
    return not_begun(error) if refused.not_begun else error


def _error(error: httpx.HTTPError, url: str, patience: Patience | None = None) -> TrilithError:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return failures.not_connected(url, str(error))
    if isinstance(error, httpx.LocalProtocolError):
        return Unsupported(f"{url} describes a method that cannot be called: {error}")
    if isinstance(error, httpx.TimeoutException):
        return overdue(url, patience or Patience(asked_s=CONNECT_WITHIN_S, method_s=None))
    return failures.lost(url, str(error))


def _error_of_first(error: httpx.HTTPError, url: str, *, certified: bool) -> TrilithError:
    """Of the first request to a server, about which nothing is known yet."""
    found = _error(error, url)
    if not isinstance(found, ReplicaLost):
        return found
    if not url.startswith("https://"):
        hint = f"if the server speaks TLS, write {url.replace('http://', 'https://', 1)}"
    elif certified:
        hint = "a server that asks for certificates of its clients may not trust the one in tls_certificate="
    else:
        hint = "a server that asks for certificates of its clients wants tls_certificate= (and tls_key=)"
    return ReplicaLost(f"{found.message}; {hint}")


def _check_open(http: httpx.Client | httpx.AsyncClient, url: str) -> None:
    if http.is_closed:
        raise RuntimeError(f"the client of {url} is closed: make a new one, or call inside its `with` block")


async def _of_items(
    server: DuplexServer, path: str, body: Body, items: Iterable[bytes] | AsyncIterable[bytes], patience: Patience
) -> AsyncGenerator[Any, None]:
    """A call whose caller waits in a thread: the content type of its answer, and what comes."""
    content_type, chunks = await server.open(path, body, as_asynchronous(items, in_thread=True), patience)
    async with contextlib.aclosing(chunks):
        yield content_type
        async for chunk in chunks:
            yield chunk


def _rest(came: BlockingItems) -> Generator[bytes, None, None]:
    with came:
        yield b""
        yield from came


class SyncTransport:
    """Sends requests and waits; keeps connections open between them. May be used by several threads.

    Attributes:
        both_ways: for calls with items both ways.
    """

    def __init__(self, url: str, options: ConnectionOptions) -> None:
        self.url = url
        self._certified = options.tls_certificate is not None
        self._places = Places(url, options.connections)
        given, self._one_way = _reach(url, options, self._places)
        self._http = httpx.Client(**given)
        self.both_ways = options.both_ways(self._one_way)

    def check_open(self) -> None:
        """Raises RuntimeError when it is closed."""
        _check_open(self._http, self.url)

    def post(self, path: str, body: Body, patience: Patience) -> Answered:
        """The answer to a call.

        Raises:
            NoReadyReplica, DeadlineExceeded, ReplicaLost: there was none.
            RuntimeError: it is closed.
        """
        self.check_open()
        large = _large(body)
        if large is not None:
            return self._wait(_sent_large(self._one_way, path, body, large, patience))
        whole = WholeCall(self.url, patience)
        try:
            with self._places.held(patience.asked_s):
                request = self._http.build_request("POST", path, **_request(body, patience))
                if isinstance(request.stream, httpx.SyncByteStream):
                    request.stream = _Sent(request.stream, whole)
                with contextlib.closing(self._http.send(request, stream=True)) as response:
                    left_s = whole.left_s()
                    if left_s is not None:
                        request.extensions["timeout"]["read"] = left_s  # from here on, the body
                    return _answer(response, b"".join(whole.pieces(response.iter_bytes())))
        except httpx.HTTPError as error:
            raise _error(error, self.url, patience) from error

    @staticmethod
    def _wait(call: Coroutine[Any, Any, Answered]) -> Answered:
        """What a call on the loop of waiting callers comes to. Who is interrupted takes it back."""
        future = asyncio.run_coroutine_threadsafe(call, calls_loop.loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def open(
        self, path: str, body: Body, items: Iterable[bytes] | AsyncIterable[bytes] | None, patience: Patience
    ) -> tuple[str, Generator[bytes, None, None]]:
        """The beginning of an answer: its content type, and what comes, as it comes; closing that ends the call.

        Args:
            items: what is sent, piece by piece; None for the body as it is.

        Raises:
            TrilithError: there was none, or it was an error.
            RuntimeError: it is closed.
        """
        self.check_open()
        if items is not None:
            came = BlockingItems(lambda: _of_items(self._one_way, path, body, items, patience), calls_loop.loop())
            with contextlib.ExitStack() as undo:
                undo.callback(came.close)
                content_type, chunks = str(next(came)), _rest(came)
                next(chunks)  # closing one that has not begun would not end the call
                undo.pop_all()
            return content_type, chunks
        whole = WholeCall(self.url, patience)
        self._places.take(patience.asked_s)
        with contextlib.ExitStack() as undo:
            undo.callback(self._places.free)
            try:
                request = self._http.build_request("POST", path, **_request(body, patience))
                response = self._http.send(request, stream=True)
                if response.status_code >= 400:
                    with contextlib.closing(response):
                        raise error_of(_answer(response, response.read()))
            except httpx.HTTPError as error:
                raise _error(error, self.url, patience) from error
            chunks = self._chunks(response, whole, patience)
            next(chunks)
            undo.pop_all()
        return response.headers.get("content-type", ""), chunks

    def _chunks(self, response: httpx.Response, whole: WholeCall, patience: Patience) -> Generator[bytes, None, None]:
        with contextlib.ExitStack() as ending:
            ending.callback(self._places.free)
            ending.callback(response.close)
            try:
                yield b""
                for chunk in response.iter_bytes():
                    whole.left_s()
                    yield chunk
            except httpx.HTTPError as error:
                raise _error(error, self.url, patience) from error

    def get(self, path: str) -> Answered:
        """The answer to a GET. RuntimeError: it is closed."""
        self.check_open()
        try:
            return _answer(self._http.get(path, timeout=CONNECT_WITHIN_S))
        except httpx.HTTPError as error:
            raise _error_of_first(error, self.url, certified=self._certified) from error

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()


class AsyncTransport:
    """The same, on an event loop."""

    def __init__(self, url: str, options: ConnectionOptions) -> None:
        self.url = url
        self._certified = options.tls_certificate is not None
        self._places = Places(url, options.connections)
        given, self._one_way = _reach(url, options, self._places)
        self._http = httpx.AsyncClient(**given)
        self.both_ways = options.both_ways(self._one_way)

    def check_open(self) -> None:
        """Raises RuntimeError when it is closed."""
        _check_open(self._http, self.url)

    async def post(self, path: str, body: Body, patience: Patience) -> Answered:
        """The answer to a call.

        Raises:
            NoReadyReplica, DeadlineExceeded, ReplicaLost: there was none.
            RuntimeError: it is closed.
        """
        self.check_open()
        large = _large(body)
        if large is not None:
            return await _sent_large(self._one_way, path, body, large, patience)
        try:
            async with asyncio.timeout(patience.whole_s):
                await self._places.take_on_loop(patience.asked_s)
                try:
                    return _answer(await self._http.post(path, **_request(body, patience)))
                finally:
                    self._places.free()
        except TimeoutError as error:
            raise overdue(self.url, patience) from error
        except httpx.HTTPError as error:
            raise _error(error, self.url, patience) from error

    async def open(
        self, path: str, body: Body, items: AsyncIterable[bytes] | None, patience: Patience
    ) -> tuple[str, AsyncGenerator[bytes, None]]:
        """The beginning of an answer: its content type, and what comes, as it comes; closing that ends the call.

        Args:
            items: what is sent, piece by piece; None for the body as it is.

        Raises:
            TrilithError: there was none, or it was an error.
            RuntimeError: it is closed.
        """
        self.check_open()
        if items is not None:
            return await self._one_way.open(path, body, items, patience)
        whole = WholeCall(self.url, patience)
        await self._places.take_on_loop(patience.asked_s)
        with contextlib.ExitStack() as undo:
            undo.callback(self._places.free)
            try:
                async with asyncio.timeout(patience.whole_s):
                    request = self._http.build_request("POST", path, **_request(body, patience))
                    response = await self._http.send(request, stream=True)
                    if response.status_code >= 400:
                        async with contextlib.aclosing(response):
                            raise error_of(_answer(response, await response.aread()))
            except TimeoutError as error:
                raise overdue(self.url, patience) from error
            except httpx.HTTPError as error:
                raise _error(error, self.url, patience) from error
            chunks = self._chunks(response, whole, patience)
            await anext(chunks)  # closing one that has not begun would not end the call
            undo.pop_all()
        return response.headers.get("content-type", ""), chunks

    async def _chunks(
        self, response: httpx.Response, whole: WholeCall, patience: Patience
    ) -> AsyncGenerator[bytes, None]:
        async with contextlib.AsyncExitStack() as ending:
            ending.callback(self._places.free)
            ending.push_async_callback(response.aclose)
            try:
                yield b""
                async for chunk in response.aiter_bytes():
                    whole.left_s()
                    yield chunk
            except httpx.HTTPError as error:
                raise _error(error, self.url, patience) from error

    async def get(self, path: str) -> Answered:
        """The answer to a GET. RuntimeError: it is closed."""
        self.check_open()
        try:
            return _answer(await self._http.get(path, timeout=CONNECT_WITHIN_S))
        except httpx.HTTPError as error:
            raise _error_of_first(error, self.url, certified=self._certified) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()
