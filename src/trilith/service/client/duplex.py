"""Calls whose items go in while others come out: HTTP/1.1 on a connection of its own, read and written at once.

httpx sends a whole request before it reads the answer. A method that answers as it is asked would wait for its reader,
and its reader for it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from trilith.core.plain_numbers import plain_number
from trilith.errors import NoReadyReplica, ReplicaLost, TrilithError
from trilith.service.client.encoding import Body, decode_error
from trilith.service.client.patience import Patience, WholeCall, overdue
from trilith.wire.http1.answer_reader import AnswerReader

_CONNECT_WITHIN_S = 5.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexServer:
    """Where calls go.

    Attributes:
        url: the server's address.
        headers: sent with each call.
        tls: for https.
    """

    url: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext | None

    async def open(
        self, path: str, body: Body, items: AsyncIterable[bytes], patience: Patience
    ) -> tuple[str, AsyncGenerator[bytes, None]]:
        """The beginning of an answer: its content type, and what comes, as it comes; closing that ends the call.

        Raises:
            TrilithError: there was none, or it was an error; or what `items` raised.
        """
        reader, writer = await self._connect(patience)
        call = _Call(self.url, reader, writer, patience)
        writer.write(self._head(path, body, patience))
        try:
            return await call.begin(items)
        except BaseException:
            call.close()
            raise

    async def _connect(self, patience: Patience) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(patience.within_s(_CONNECT_WITHIN_S)):
                return await asyncio.open_connection(parts.hostname, port, ssl=self.tls)
        except (OSError, TimeoutError) as error:
            raise NoReadyReplica(f"nothing answers at {self.url}: {error}; is the server running?") from error

    def _asked(self, path: str, body: Body, patience: Patience) -> tuple[str, str, dict[str, str]]:
        """Host, target and headers of a call."""
        parts = urlsplit(self.url)
        query = f"?{urlencode(body.query)}" if body.query else ""
        headers = {**self.headers, "accept": body.accept}
        if patience.asked_s is not None:
            headers["trilith-timeout-ms"] = plain_number(patience.asked_s * 1e3)
        return parts.netloc, f"{parts.path}{path}{query}", headers

    def _head(self, path: str, body: Body, patience: Patience) -> bytes:
        host, target, headers = self._asked(path, body, patience)
        headers |= {"host": host, "content-type": body.content_type, "transfer-encoding": "chunked"}
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1")


class CallConnection:
    """The connection of one call: what comes over it, while a task sends."""

    def __init__(
        self, url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: Patience
    ) -> None:
        self._url = url
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._whole = WholeCall(url, patience)
        self._sending: asyncio.Task[None] | None = None

    async def _octets(self) -> bytes:
        """What comes next; b"" at the end. Raises what sending raised meanwhile, if it was not the connection.

        Raises:
            TrilithError: nothing more came, or not in time.
        """
        reading = asyncio.ensure_future(self._reader.read(_READ_BYTES))
        waiting: set[asyncio.Future[object]] = {reading}  # type: ignore[arg-type]
        if self._sending is not None:
            waiting.add(self._sending)  # type: ignore[arg-type]
        try:
            while not reading.done():
                left_s = self._whole.left_s()
                limit_s = self._patience.step_s if left_s is None else left_s
                done, waiting = await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    raise overdue(self._url, self._patience)
                self._check_sent()
            return reading.result()
        except OSError as error:
            raise self._lost(str(error)) from error
        finally:
            reading.cancel()

    def _check_sent(self) -> None:
        sending = self._sending
        if sending is None or not sending.done():
            return
        self._sending = None
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error

    def _lost(self, why: str) -> TrilithError:
        return ReplicaLost(f"the connection to {self._url} broke before the answer was there: {why}")

    def close(self) -> None:
        """Ends the connection, and what is sent over it."""
        if self._sending is not None:
            self._sending.cancel()
            self._sending.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._writer.transport.abort()


class _Call(CallConnection):
    """One call on its connection."""

    def __init__(
        self, url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: Patience
    ) -> None:
        super().__init__(url, reader, writer, patience)
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
            raise decode_error(self._answer.status, b"".join(first), self._answer.headers.get("retry-after"))
        return self._answer.headers.get("content-type", ""), self._chunks(first)

    async def _chunks(self, first: list[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            for chunk in first:
                yield chunk
            while not self._answer.complete:
                for chunk in await self._more():
                    yield chunk
        finally:
            self.close()

    async def _send(self, items: AsyncIterable[bytes]) -> None:
        async for item in items:
            if item:
                self._writer.write(b"%x\r\n%b\r\n" % (len(item), item))
                await self._writer.drain()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def _more(self) -> list[bytes]:
        """What comes next of the body; see `_octets`."""
        octets = await self._octets()
        if not octets:
            if self._answer.ends_with_connection():
                self._answer.complete = True
                return []
            raise self._lost("it was closed")
        try:
            return self._answer.push(octets)
        except ValueError as error:
            raise self._lost(str(error)) from error
