"""One request over HTTP/2 and the way back to its client: an `HttpSink` for one stream.

Rule 1: a stream's window opens again as its body is read. What is not read is not granted.
Rule 2: the request knows its exchange for good, the exchange its request until `end`: no circle is left that would keep
        the body until the collector comes by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from trilith.errors import Bug
from trilith.net.held_bytes import ConnectionShare
from trilith.net.http1.outbound import Buffer
from trilith.net.http1.request import HttpRequest
from trilith.net.http1.state import AnswerHeaders, ErrorForm
from trilith.net.http1.waiting import Listener
from trilith.wire.http1 import HttpLimits, InboundBody
from trilith.wire.http2 import EncodedHeaders, ErrorCode, RequestHead
from trilith.wire.http2_heads import Http2Heads
from trilith.wire.http2_request import given_request_id, header_list

if TYPE_CHECKING:
    from trilith.net.http1.http2_connection import HttpOverHttp2

_CONTINUE: Final = EncodedHeaders(((b":status", b"100"),))


class Http2Exchange:
    """See `HttpSink` for what the request calls.

    Attributes:
        early: the application gets it before its body is here.
        endless: its body may be longer than the limit, and its client silent for any time.
        read_at: when the last octets of its body came, in seconds.
    """

    __slots__ = (
        "_connection",
        "_listener",
        "_request",
        "_roomless",
        "_stream_id",
        "_ungranted",
        "_waiter",
        "early",
        "endless",
        "read_at",
    )

    def __init__(
        self, connection: HttpOverHttp2, stream_id: int, head: RequestHead, *, ended: bool, now: float
    ) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._ungranted = 0
        self._roomless = False
        self.endless = False
        self._waiter: asyncio.Event | None = None
        self._listener: Listener | None = None
        self.read_at = now
        limits = connection.limits
        path, _, query = head.path.decode("latin-1").partition("?")
        expects = not ended and head.field(b"expect") is not None
        length = 0 if ended else head.content_length
        self.early = length is None or expects or length > limits.early_start_bytes
        request = HttpRequest(
            self,
            head.method.decode("latin-1"),
            path,
            query,
            header_list(head),
            head.content_length,
            given_request_id(head) or connection.state.next_request_id(),
            True,
            False,
            expects,
        )
        if not ended:
            allowance = limits.read_ahead_bytes if self.early else limits.early_start_bytes
            request.accept_body(InboundBody(allowance))
        self._request: HttpRequest | None = request

    # ---- from the connection

    @property
    def ended(self) -> bool:
        """Whether the request was answered, or its client is gone."""
        return self._request is None

    @property
    def request(self) -> HttpRequest:
        """The request, until `end`."""
        if self._request is None:
            raise Bug(f"the exchange of stream {self._stream_id} has ended, and was asked for its request")
        return self._request

    def end(self) -> None:
        """The answer is given, or nobody waits for it."""
        self._request = None
        self._grant()  # what came is not wanted any more, and may not keep what is still to come from coming
        self.room()

    def received(self, data: bytes) -> None:
        """A piece of the body came."""
        request, body = self.request, self.request.inbound
        request.body_arrived(data)
        self._ungranted += len(data)
        if body is not None and not body.full:
            self._grant()

    def room(self) -> None:
        """What was sent has gone out."""
        self._roomless = False
        if self._waiter is not None:
            self._waiter.set()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.set_result(None)

    # ---- `HttpSink`

    @property
    def peer(self) -> str:
        """See `HttpSink`."""
        return self._connection.peer

    @property
    def local(self) -> str:
        """See `HttpSink`."""
        return self._connection.local

    @property
    def secure(self) -> bool:
        """See `HttpSink`."""
        return self._connection.secure

    @property
    def http2(self) -> bool:
        """See `HttpSink`."""
        return True

    @property
    def limits(self) -> HttpLimits:
        """See `HttpSink`."""
        return self._connection.limits

    @property
    def share(self) -> ConnectionShare:
        """See `HttpSink`."""
        return self._connection.share

    @property
    def heads(self) -> Http2Heads:
        """See `HttpSink`."""
        return self._connection.heads

    @property
    def error_form(self) -> ErrorForm:
        """See `HttpSink`."""
        return self._connection.state.error_form

    @property
    def answer_headers(self) -> AnswerHeaders | None:
        """See `HttpSink`."""
        return self._connection.state.answer_headers

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """See `HttpSink`."""
        return self._connection.loop

    @property
    def client_certificate(self) -> Mapping[str, object] | None:
        """See `HttpSink`."""
        return self._connection.client_certificate

    @property
    def write_paused(self) -> bool:
        """See `HttpSink`."""
        return self._roomless

    def will_keep(self, request: HttpRequest) -> bool:
        """Always: a stream ends by itself."""
        return True

    def send_continue(self) -> None:
        """See `HttpSink`."""
        self._connection.http2.begin(self._stream_id, _CONTINUE)
        self._connection.schedule()

    def endless_body(self) -> None:
        """See `HttpSink`."""
        self.endless = True

    def send_answer(self, request: HttpRequest, status: int, head: EncodedHeaders, body: Buffer, *, keep: bool) -> None:
        """See `HttpSink`."""
        http2, read_on = self._connection.http2, self._connection.reads_on(request, self._stream_id)
        if len(body):
            http2.begin(self._stream_id, head)
            http2.send_data(self._stream_id, (body if isinstance(body, bytes) else memoryview(body),))
            http2.end(self._stream_id, read_on=read_on)
        else:
            http2.send_headers(self._stream_id, head, read_on=read_on)
        self._connection.state.counters.responses[status] += 1
        self._connection.answered(self._stream_id)

    def begin_answer(self, status: int, head: EncodedHeaders) -> None:
        """See `HttpSink`."""
        self._connection.state.counters.responses[status] += 1
        self._connection.http2.begin(self._stream_id, head)
        self._connection.schedule()

    def send_chunk(self, chunk: bytes, *, chunked: bool) -> None:
        """See `HttpSink`."""
        self._roomless = not self._connection.http2.send_data(self._stream_id, (chunk,))
        self._connection.schedule()

    def end_answer(self, request: HttpRequest, *, last_chunk: bool, keep: bool) -> None:
        """See `HttpSink`."""
        self._connection.http2.end(self._stream_id, read_on=self._connection.reads_on(request, self._stream_id))
        self._connection.answered(self._stream_id)

    async def writable(self) -> None:
        """See `HttpSink`."""
        if self._roomless and not self.ended:
            if self._waiter is None:
                self._waiter = asyncio.Event()
            self._waiter.clear()
            await self._waiter.wait()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """See `HttpSink`."""
        self._listener = Listener(callback)

    def update_reading(self) -> None:
        """See `HttpSink`."""
        body = None if self._request is None else self._request.inbound
        if body is not None and not body.full:
            self._grant()

    def count_aborted_stream(self) -> None:
        """See `HttpSink`."""
        self._connection.state.counters.aborted_streams += 1

    def abort(self) -> None:
        """Resets the stream: the client cannot take what it has for the whole."""
        self._connection.http2.reset(self._stream_id, ErrorCode.INTERNAL_ERROR)
        self._connection.answered(self._stream_id)

    def _grant(self) -> None:
        if self._ungranted:
            granted, self._ungranted = self._ungranted, 0
            self._connection.http2.release(self._stream_id, granted)
            self._connection.schedule()
