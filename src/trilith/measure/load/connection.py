"""One HTTP/1.1 connection of the generator: one request at a time, kept alive, driven by callbacks alone.

Rule 1: no task and no future in the hot path: the parser's callback writes the next request.
Rule 2: this file knows bytes and outcomes. When to send, what to count and when to stop is the loop's (`Load`).
Rule 3: every way in which an answer can fail to come has one word (`RESET`, `MALFORMED`, `TIMEOUT`, ...).
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Final, Protocol, cast

import httptools

from trilith.core.timeline import TIMELINE_AT_HEADER, TIMELINE_HEADER
from trilith.measure.load.items import ItemCounter, item_counter
from trilith.measure.load.lanes import CLOSED, CUT_OFF, MALFORMED, RESET, Load
from trilith.measure.load.target import PreparedRequest

_END_OF_HEAD: Final = b"\r\n\r\n"
_FRAMED: Final = re.compile(rb"\r\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)


class Owner(Protocol):
    """The station of a connection."""

    def lost(self, connection: HttpConnection, kind: str) -> None:
        """The request in flight, if any, gets no answer, and the connection is of no more use."""
        ...

    def answered(self, slot: int) -> None:
        """The connection works."""
        ...


class HttpConnection(asyncio.Protocol):
    """A connection to the server under load.

    The attributes of a `Lane`, and:

    Attributes:
        reusable: whether another request may be sent.
        received_bytes: bytes read on this connection, heads included.
    """

    __slots__ = (
        "_answered",
        "_counter",
        "_head",
        "_items",
        "_load",
        "_lost",
        "_owner",
        "_parser",
        "_plain",
        "_sampling",
        "_status_seen",
        "_transport",
        "due_at",
        "last_item_at",
        "received_bytes",
        "reusable",
        "sampled",
        "sent_at",
        "slot",
        "station",
        "timeline",
        "timeline_place",
        "waiting",
    )

    def __init__(self, owner: Owner, load: Load, *, station: int, slot: int, items: str = "") -> None:
        self._owner = owner
        self._load = load
        self._items = items
        self._counter: ItemCounter | None = None
        self._transport: asyncio.Transport | None = None
        # Two parsers, because a callback for each header is what costs, and only sampled answers need one.
        self._plain = httptools.HttpResponseParser(_StreamEvents(self) if items else _AnswerEvents(self))
        self._sampling = httptools.HttpResponseParser(
            _SampledStreamEvents(self) if items else _SampledAnswerEvents(self)
        )
        self._parser = self._plain
        self._head = b""
        self._status_seen = False
        self._answered = False  # within the bytes that are being read
        self._lost = False
        self.station = station
        self.slot = slot
        self.due_at = 0.0
        self.sent_at = 0.0
        self.last_item_at = 0.0
        self.waiting = False
        self.reusable = False
        self.sampled = False
        self.timeline: bytes | None = None
        self.timeline_place: bytes | None = None
        self.received_bytes = 0

    def send(self, request: PreparedRequest, *, sampled: bool) -> None:
        """Writes a request. The connection must be reusable."""
        buffers = request.sampled if sampled else request.plain
        self.waiting = True
        self.sampled = sampled
        self._parser = self._sampling if sampled else self._plain
        self._head = b""
        self._status_seen = False
        if self._items:
            self.last_item_at = 0.0
            self._counter = item_counter(self._items)
        transport = self._transport
        if transport is None:
            return
        if len(buffers) == 1:
            transport.write(buffers[0])
        else:
            transport.writelines(buffers)

    def abort(self) -> None:
        """Drops the connection at once and reports nothing."""
        self._lost = True
        self.reusable = False
        self.waiting = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # TCP and TLS give no other
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reusable = True

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer."""
        self.received_bytes += len(data)
        if not self.waiting:
            if not self._lost:
                self._fail(MALFORMED)  # an answer that nobody asked for
            return
        if not self._status_seen:
            self._head = self._head + data if self._head else data
        self._answered = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours in a callback, not the server's
        except httptools.HttpParserError:
            if not self._lost:
                self._fail(MALFORMED)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._lost:
            return
        self.reusable = False
        if self.waiting and self._status_seen and exc is None and self._ends_with_connection():
            self.message_complete()
        elif not self.waiting:
            self._fail(CLOSED)
        elif exc is not None:
            self._fail(RESET)
        else:
            self._fail(CUT_OFF if self._head else CLOSED)

    def message_complete(self) -> None:
        """The parser saw the end of a message."""
        status = self._parser.get_status_code()
        if status < 200:
            self._status_seen = False
            self._head = self._head.partition(_END_OF_HEAD)[2]  # what an interim answer says of itself is over
            return
        if self._answered:
            # The request that was written a moment ago cannot have been read, let alone answered.
            if not self._lost:
                self._fail(MALFORMED)
            return
        self._answered = True
        self.waiting = False
        self.reusable = self.reusable and self._parser.should_keep_alive()
        self._owner.answered(self.slot)
        self._load.ended(self, "" if status < 300 else f"status {status}")

    def body(self, chunk: bytes) -> None:
        """The parser saw a piece of the body of an answer of several items."""
        number = self._counter.push(chunk) if self._counter is not None else 0
        if number and self.waiting and self._parser.get_status_code() < 300:
            self._load.items(self, number)

    def headers_complete(self) -> None:
        """The parser saw the end of a head."""
        self._status_seen = True

    def _ends_with_connection(self) -> bool:
        # An answer with neither length nor chunks ends where the connection ends (RFC 9112, section 6.3).
        head, separator, _ = self._head.partition(_END_OF_HEAD)
        return bool(separator) and not _FRAMED.search(head)

    def _fail(self, kind: str) -> None:
        self._lost = True
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()
        self._owner.lost(self, kind)


class _AnswerEvents:
    """What the parser tells a connection about an ordinary answer."""

    __slots__ = ("on_headers_complete", "on_message_complete")

    def __init__(self, connection: HttpConnection) -> None:
        self.on_headers_complete = connection.headers_complete
        self.on_message_complete = connection.message_complete


class _SampledAnswerEvents:
    """The same for an answer whose timeline was asked for."""

    __slots__ = ("_connection", "on_headers_complete", "on_message_complete")

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self.on_headers_complete = connection.headers_complete
        self.on_message_complete = connection.message_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        name = name.lower()
        if name == TIMELINE_HEADER:
            self._connection.timeline = value
        elif name == TIMELINE_AT_HEADER:
            self._connection.timeline_place = value


class _StreamEvents(_AnswerEvents):
    """What the parser tells a connection about an answer of several items."""

    __slots__ = ("on_body",)

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__(connection)
        self.on_body = connection.body


class _SampledStreamEvents(_SampledAnswerEvents):
    """The same when its timeline was asked for."""

    __slots__ = ("on_body",)

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__(connection)
        self.on_body = connection.body
