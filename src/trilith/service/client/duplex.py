"""Calls whose caller gives items, and large bodies: HTTP/1.1 on a connection of its own, read and written at once.

httpx sends a whole request before it reads the answer. A method that answers as it is asked would wait for its reader,
and its reader for it; and an answer that comes before the last item, or in the middle of a body (it is too large, or
the key is none), would be seen late, or be lost with the connection.

Rule 1: the answer is given as soon as it is there. What is still to be sent then is not.
Rule 2: a call has one of the client's places as long as its connection is open.
Rule 3: a server is silent for too long when it neither took nor gave anything while its caller waited for it. Time in
    which the next item is not there is the caller's own; the server has a limit for it.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from trilith.core.plain_numbers import plain_number
from trilith.errors import TrilithError, Unsupported
from trilith.service.bridge import BackgroundLoop
from trilith.service.client import failures
from trilith.service.client.encoding import Body, decode_error
from trilith.service.client.heads import trace_of_caller
from trilith.service.client.patience import Patience, WholeCall, overdue
from trilith.service.client.places import Places
from trilith.service.client.retries import Answered, Refused
from trilith.wire.calls import NOT_BEGUN_HEADER
from trilith.wire.http1.answer_reader import AnswerReader
from trilith.wire.http1.request_head import request_head

CONNECT_WITHIN_S: Final = 5.0
"""How long a server may take to take a connection, in seconds."""

calls_loop: Final = BackgroundLoop()
"""Where calls run whose callers wait. No code of users does: who waits on a loop, and stops it so, is answered."""

_READ_BYTES: Final = 1 << 16
_PIECE_BYTES: Final = 1 << 18
Query = tuple[tuple[str, str], ...]

_OF_PATHS: Final = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexServer:
    """Where calls go.

    Attributes:
        url: the server's address.
        headers: sent with each call, by name in lower case.
        tls: for https.
        places: of the client.
    """

    url: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext | None
    places: Places

    async def open(
        self, path: str, body: Body, items: AsyncIterable[bytes], patience: Patience
    ) -> tuple[str, AsyncGenerator[bytes, None]]:
        """The beginning of an answer: its content type, and what comes, as it comes; closing that ends the call.

        Raises:
            TrilithError: there was none, or it was an error; or what `items` raised. None was asked for where there was
                no connection.
        """
        target, headers = self._asked(path, body.query, patience)
        headers |= {"accept": body.accept, "content-type": body.content_type, "transfer-encoding": "chunked"}
        head = self._head("POST", target, headers)
        reader, writer = await self._connect(patience)
        call = _Call(self.url, reader, writer, patience, self.places.free)
        writer.write(head)
        try:
            return await call.begin(items)
        except BaseException:
            call.close()
            raise

    async def post(
        self, path: str, query: Query, headers: Mapping[str, str], pieces: Iterable[bytes], patience: Patience
    ) -> Answered:
        """The answer to a call with a body of a known length, as soon as it is there.

        Args:
            path: of the method.
            query: what stands in the target behind it.
            headers: `accept`, and those of the body: its type and length.
            pieces: the body.
            patience: how long it may take.

        Raises:
            TrilithError: there was none.
        """
        target, said = self._asked(path, query, patience)
        head = self._head("POST", target, {**said, **headers})
        reader, writer = await self._connect(patience)
        call = _Call(self.url, reader, writer, patience, self.places.free)
        writer.write(head)
        try:
            return await call.whole(pieces)
        finally:
            call.close()

    async def _connect(self, patience: Patience) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection, and a place, which is free again when its call is closed."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        within_s = patience.within_s(CONNECT_WITHIN_S)
        await self.places.take_on_loop(patience.asked_s)
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.open_connection(parts.hostname, port, ssl=self.tls)
        except BaseException as error:
            self.places.free()
            if isinstance(error, OSError):  # a TimeoutError is one, and says nothing
                why = str(error) or f"no connection within {within_s:.3g} s"
                raise failures.not_connected(self.url, why) from error
            raise

    def _asked(self, path: str, pairs: Query, patience: Patience) -> tuple[str, dict[str, str]]:
        """Target and headers of a call."""
        parts = urlsplit(self.url)
        credentials, _, host = parts.netloc.rpartition("@")
        query = f"?{urlencode(pairs)}" if pairs else ""
        headers = {"host": host, **self.headers, **trace_of_caller()}
        if credentials and "authorization" not in headers:
            headers["authorization"] = f"Basic {base64.b64encode(unquote(credentials).encode()).decode()}"
        if patience.asked_s is not None:
            headers["trilith-timeout-ms"] = plain_number(patience.asked_s * 1e3)
        return f"{quote(f'{parts.path}{path}', safe=_OF_PATHS)}{query}", headers

    def _head(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        try:
            return request_head(method, target, headers)
        except ValueError as error:
            raise Unsupported(f"{self.url} describes a method that cannot be called: {error}") from error


class CallConnection:
    """The connection of one call: what comes over it, while a task sends."""

    def __init__(
        self,
        url: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        patience: Patience,
        on_close: Callable[[], None],
    ) -> None:
        self._url = url
        self._on_close: Callable[[], None] | None = on_close
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._whole = WholeCall(url, patience)
        self._sending: asyncio.Task[None] | None = None
        self._awaits_item = False
        self._active_at = time.monotonic()

    async def _taken(self, items: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """The items; notes meanwhile who waits for whom."""
        self._awaits_item = True
        found = aiter(items)
        try:
            async for item in found:
                self._awaits_item, self._active_at = False, time.monotonic()
                yield item
                self._awaits_item, self._active_at = True, time.monotonic()
        finally:
            self._awaits_item, self._active_at = False, time.monotonic()
            close = getattr(found, "aclose", None)
            if close is not None:
                await close()

    async def _octets(self) -> bytes:
        """What comes next; b"" at the end. Raises what sending raised meanwhile, if it was not the connection.

        Raises:
            TrilithError: nothing more came, or not in time.
        """
        reading = asyncio.ensure_future(self._reader.read(_READ_BYTES))
        waiting: set[asyncio.Future[object]] = {reading}  # type: ignore[arg-type]
        if self._sending is not None:
            waiting.add(self._sending)  # type: ignore[arg-type]
        self._active_at = time.monotonic()
        try:
            while not reading.done():
                limit_s = self._limit_s()
                _, waiting = await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                self._check_sent()
            return reading.result()
        except OSError as error:
            raise self._lost(str(error)) from error
        finally:
            reading.cancel()

    def _limit_s(self) -> float | None:
        """How long to wait now. DeadlineExceeded: no longer."""
        left_s, step_s = self._whole.left_s(), self._patience.step_s
        if left_s is not None or step_s is None:
            return left_s
        if self._awaits_item:
            return step_s
        left_s = self._active_at + step_s - time.monotonic()
        if left_s <= 0:
            raise overdue(self._url, self._patience)
        return left_s

    def _check_sent(self) -> None:
        sending = self._sending
        if sending is None or not sending.done():
            return
        self._sending = None
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error

    def _lost(self, why: str) -> TrilithError:
        return failures.lost(self._url, why)

    def close(self) -> None:
        """Ends the connection, and what is sent over it."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
        if self._sending is not None:
            self._sending.cancel()
            self._sending.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._writer.transport.abort()


class _Call(CallConnection):
    """One call on its connection."""

    def __init__(
        self,
        url: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        patience: Patience,
        on_close: Callable[[], None],
    ) -> None:
        super().__init__(url, reader, writer, patience, on_close)
        self._answer = AnswerReader()

    async def begin(self, items: AsyncIterable[bytes]) -> tuple[str, AsyncGenerator[bytes, None]]:
        self._sending = asyncio.ensure_future(self._send(items))
        first: list[bytes] = []
        while not self._answer.status:
            first += await self._more()
        if self._answer.status >= 400:
            while not self._answer.complete:
                first += await self._more()
            self.close()
            raise decode_error(self._answer.status, b"".join(first), self._answer.fields.get("retry-after"))
        chunks = self._chunks(first)
        await anext(chunks)  # closing one that has not begun would not end the call
        return self._answer.fields.get("content-type", ""), chunks

    async def whole(self, pieces: Iterable[bytes]) -> Answered:
        self._sending = asyncio.ensure_future(self._send_plain(pieces))
        found: list[bytes] = []
        while not self._answer.complete:
            found += await self._more()
        fields = self._answer.fields
        refused = Refused(fields.get("retry-after"), fields.get(NOT_BEGUN_HEADER) == "1")
        return self._answer.status, fields.get("content-type", ""), b"".join(found), refused

    async def _send_plain(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            for at in range(0, len(piece), _PIECE_BYTES):
                self._writer.write(piece[at : at + _PIECE_BYTES])
                await self._writer.drain()
                self._active_at = time.monotonic()

    async def _chunks(self, first: list[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            yield b""
            for chunk in first:
                yield chunk
            while not self._answer.complete:
                for chunk in await self._more():
                    yield chunk
        finally:
            self.close()

    async def _send(self, items: AsyncIterable[bytes]) -> None:
        async with aclosing(self._taken(items)) as taken:
            async for item in taken:
                if item:
                    self._writer.write(b"%x\r\n%b\r\n" % (len(item), item))
                    await self._writer.drain()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _more(self) -> list[bytes]:
        """What comes next of the body; see `_octets`."""
        octets = await self._octets()
        if not octets:
            if self._answer.connection_ended():
                return []
            raise self._lost("it was closed")
        try:
            return self._answer.push(octets)
        except ValueError as error:
            raise self._lost(str(error)) from error
