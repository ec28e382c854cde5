"""One HTTP/1.1 connection: requests out of bytes, answers in order, and who is held back when.

How to read it. The transport calls the `asyncio.Protocol` methods; they feed the `RequestReader`, which calls back
`head_received`, `body_received` and `message_received`. A request goes reading -> waiting -> current -> answered:

    _reading   the request whose head is here and whose body is not complete
    _waiting   requests behind the current one, in order (pipelining); refusals wait there too
    _current   the one whose answer is due

Rule 1: answers leave in the order of the requests.
Rule 2: whether the socket is read is decided in one place, `_must_pause`, from the state alone. Everything that changes
        the state calls `update_reading`, so that no path can forget to resume.
Rule 3: end of file is the end of the client: a half-closed connection cannot be told from a closed one.
Rule 4: a connection that closes while its client may still be sending lingers: its end is closed for writing and what
        comes is thrown away for a moment, else the reset that follows would destroy the answer.
Rule 5: a connection that has ended knows no request, and none of its parts knows it: what a client sent is freed when
        the client goes, not when the collector of circles comes by.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final, cast

from trilith.errors import TrilithError
from trilith.net.held_bytes import LARGE_BYTES, ConnectionShare
from trilith.net.http1.address import address_text
from trilith.net.http1.dispatch import dispatch, give_up, tell_disconnect
from trilith.net.http1.gate import FULL_READ_BYTES, ReadGate
from trilith.net.http1.http2_connection import HttpOverHttp2
from trilith.net.http1.late_body import LateBody
from trilith.net.http1.outbound import Buffer, Outbound
from trilith.net.http1.request import HttpRequest, request_of
from trilith.net.http1.state import AnswerHeaders, ErrorForm, ServerState
from trilith.wire.http1 import InboundBody, Refusal, RequestReader, refusal

_HTTP2_START: Final = b"PRI * HTTP/2"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_COPY_BYTES: Final = 16 << 10  # below it, a chunk is copied into its frame: one buffer is cheaper than three
_LINGER_BYTES: Final = 16 << 20


class HttpConnection(asyncio.Protocol):
    """One connection of an `HttpServer`."""

    __slots__ = (
        "_current",
        "_first",
        "_gate",
        "_head_since",
        "_idle_since",
        "_late_body",
        "_linger_bytes",
        "_linger_until",
        "_lost",
        "_out",
        "_pumping",
        "_read_at",
        "_reader",
        "_reading",
        "_start_early",
        "_transport",
        "_upgrading",
        "_waiting",
        "heads",
        "limits",
        "loop",
        "peer",
        "served",
        "share",
        "state",
    )

    # Set when the connection is made: one whose TLS handshake failed never is, and nobody tells it that it has ended.
    _reader: RequestReader
    _transport: asyncio.Transport
    _gate: ReadGate
    _out: Outbound

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.limits = state.limits
        self.heads = state.heads
        self.loop = state.loop
        self.share = ConnectionShare(state.held)
        self.peer = ""
        self._reading: HttpRequest | None = None
        self._waiting: deque[HttpRequest] = deque()
        self._current: HttpRequest | None = None
        self._first: bytes | None = b""
        self._start_early = False
        self._pumping = False
        self._lost = False
        self._upgrading: HttpRequest | None = None
        self._idle_since = self._read_at = state.now
        self._head_since = 0.0
        self._late_body: LateBody | None = None
        self.served = False  # whether a head has come
        self._linger_until = 0.0
        self._linger_bytes = 0

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """For the transport."""
        self._transport = cast(asyncio.Transport, transport)
        state = self.state
        self._reader = RequestReader(self, state.limits)
        self._gate = ReadGate(self._transport, state.hangups, self)
        self._out = Outbound(self._transport, state.counters, now=state.now)
        state.counters.connections_accepted_total += 1
        self._transport.set_write_buffer_limits(high=self.limits.write_buffer_bytes)
        self.peer = address_text(transport.get_extra_info("peername"))
        if len(state.connections) >= self.limits.max_connections:
            state.make_room(self.peer)
        if len(state.connections) < self.limits.max_connections:
            state.connections[self] = None
            return
        state.turned_away.add(self)
        if len(state.turned_away) > self.limits.max_turned_away:
            state.counters.refused[refusal.TOO_MANY_CONNECTIONS.reason] += 1
            self.abort()
        else:
            self._refuse(refusal.TOO_MANY_CONNECTIONS)

    def data_received(self, data: bytes) -> None:
        """For the transport."""
        state = self.state
        if self._first is not None:
            data = self._begun(data)
            if not data:
                return
        state.counters.bytes_received += len(data)
        self._read_at = state.now
        if self._linger_until:
            self._linger_bytes += len(data)
            self.update_reading()
            return
        reader = self._reader
        found = reader.feed(data)
        if found is not None:
            self._refuse(found)
        if self._upgrading is not None:
            self._begin_upgrade(self._upgrading)
            return
        reading = self._reading
        if reading is not None and self._start_early and not reading.queued:
            reading.received_at = monotonic()
            self._enqueue(reading)
        if reading is not None and self.share.passed and not reader.stopped:
            reading.drop_body()
            self._refuse(refusal.HELD_BYTES.because(self.share.refuse()))
        if reader.in_head and not self._head_since:
            self._head_since = state.now
        if len(data) >= FULL_READ_BYTES:
            self._gate.rest(state.loop)
        if reading is not None or self._waiting or self._gate.paused or self._out.paused or reader.stopped:
            self.update_reading()

    def _begun(self, data: bytes) -> bytes:
        """The first octets say which protocol it is: those for the reader, or none yet, or none at all (HTTP/2)."""
        data = (self._first or b"") + data
        if self._reader.stopped or not _HTTP2_START.startswith(data[: len(_HTTP2_START)]):
            self._first = None
            return data
        if len(data) < len(_HTTP2_START):
            self._first = data
            self._head_since = self._head_since or self.state.now
            return b""
        successor = HttpOverHttp2(self.state, peer=self.peer)
        self._hand_over(successor)
        successor.data_received(data)
        return b""

    def _hand_over(self, successor: asyncio.Protocol) -> None:
        """The socket goes on to another protocol."""
        self.share.end()
        self._lost = True  # for this protocol
        if self._gate.paused:
            self._gate.forget()
            self._transport.resume_reading()
        self._gate.end()
        self._reader.end()
        self.state.connections.pop(self, None)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)

    def eof_received(self) -> None:
        """For the transport, which closes itself after it."""
        self._client_gone()

    def hung_up(self) -> None:
        """For the hang-up watch: the client left while the socket was not read."""
        self._client_gone()
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """For the transport."""
        self._client_gone()
        self.share.end()
        self._gate.end()
        self._reader.end()
        self.state.forget(self)

    def pause_writing(self) -> None:
        """For the transport."""
        self._out.paused = True
        self.update_reading()

    def resume_writing(self) -> None:
        """For the transport."""
        self._out.resume()
        self.share.unsent(self._out.unsent_bytes)
        self.update_reading()

    # From the reader.

    def head_received(self, reader: RequestReader) -> None:
        """For the reader."""
        self._head_since = 0.0
        self.served = True
        request = request_of(self, reader, reader.request_id or self.state.next_request_id())
        self._reading = request
        length = reader.content_length
        if length or reader.chunked:
            limits = self.limits
            early = reader.chunked or reader.expects_continue or (length or 0) > limits.early_start_bytes
            self._start_early = early
            request.accept_body(InboundBody(limits.read_ahead_bytes if early else limits.early_start_bytes))

    def body_received(self, chunk: bytes) -> None:
        """For the reader."""
        if self._reading is not None:
            self._reading.body_arrived(chunk)

    def message_received(self) -> None:
        """For the reader."""
        request = self._reading
        self._reading = None
        if request is None:
            return
        request.finish_body(monotonic())
        if self._reader.websocket:
            self._upgrading = request
        elif not request.queued:
            self._enqueue(request)
        elif request is self._current and request.finished:
            self._proceed()  # the answer went out before the end of the body

    # Websockets.

    def _begin_upgrade(self, request: HttpRequest) -> None:
        """Its turn comes as that of any request; until it is decided nothing is read."""
        self._upgrading = None
        request.switches = self
        self._enqueue(request)
        self.update_reading()

    def switch(self, request: HttpRequest, head: bytes, make: Callable[[Outbound], asyncio.Protocol]) -> bytes:
        """Answers the current request with `head`, and hands the socket on to what `make` makes.

        Returns:
            the octets that the client sent behind its request.
        """
        request.switches = None
        self.state.counters.responses[101] += 1
        self._out.write(head)
        self._current = None
        rest = self._reader.rest
        self._hand_over(make(self._out))
        return rest

    # The order of requests.

    def _enqueue(self, request: HttpRequest) -> None:
        request.queued = True
        if self._current is None:
            self._begin(request)
        else:
            self._waiting.append(request)

    def _begin(self, request: HttpRequest) -> None:
        self._current = request
        state = self.state
        if request.refusal is not None:
            request.respond_refusal()
        elif request.inbound is not None and request.complete and state.held.held_bytes > state.held.last_bytes:
            state.counters.refused[refusal.HELD_BYTES.reason] += 1
            request.respond_error(refusal.HELD_BYTES.because(self.share.refuse()).error())
        else:
            dispatch(state, request)

    def _proceed(self) -> None:
        """The current request is done with: on to the next."""
        self._current = None
        self._idle_since = self.state.now
        if self._pumping:
            return  # the loop below, further up the stack, goes on
        self._pumping = True
        try:
            while self._waiting and self._may_begin():
                self._begin(self._waiting.popleft())
        finally:
            self._pumping = False
        if self.state.draining:
            self.close_when_idle()

    def _may_begin(self) -> bool:
        return self._current is None and not self._linger_until and not self._lost

    def _refuse(self, found: Refusal) -> None:
        """The reader can read no further."""
        self.state.counters.refused[found.reason] += 1
        self._reader.stop()
        request, self._reading = self._reading, None
        if request is not None and request.queued:
            if request is self._current and request.finished:
                self._close(still_sending=True)
            else:
                request.refuse(found)
            return
        if request is None:
            request = request_of(self, self._reader, self._reader.request_id or self.state.next_request_id())
            request.query = ""  # that of an earlier request, or half read
            request.method = self._reader.method if self._reader.in_head else ""
            request.path = self._reader.path_so_far
        request.refuse(found)
        self._enqueue(request)

    # From the requests.

    def will_keep(self, request: HttpRequest) -> bool:
        """Whether the connection can stay open after the answer to `request`, the current one."""
        if not request.keep_alive or self._lost:
            return False
        if not request.complete:
            body, length = request.inbound, request.content_length
            if body is None or length is None or request.awaits_continue:
                return False
            if length - body.received > self.limits.discard_bytes:
                return False
        if not self.state.draining or self._waiting:
            return True
        return self._reading is not None and self._reading is not request

    @property
    def local(self) -> str:
        """The server's own end."""
        return address_text(self._transport.get_extra_info("sockname"))

    @property
    def secure(self) -> bool:
        """Whether it is encrypted."""
        return self._transport.get_extra_info("ssl_object") is not None

    @property
    def http2(self) -> bool:
        """It is not: see `HttpOverHttp2`."""
        return False

    @property
    def client_certificate(self) -> Mapping[str, object] | None:
        """The client's TLS certificate."""
        found: Mapping[str, object] | None = self._transport.get_extra_info("peercert")
        return found or None

    @property
    def error_form(self) -> ErrorForm:
        """How errors are told."""
        return self.state.error_form

    @property
    def answer_headers(self) -> AnswerHeaders | None:
        """What is said in every answer."""
        return self.state.answer_headers

    def send_continue(self) -> None:
        """Tells the client to go on and send the body."""
        if not self._lost:
            self._out.write(_CONTINUE)

    def endless_body(self) -> None:
        """The body that is being read may be longer than the limit, and its client silent for any time."""
        self._reader.endless = True

    def send_answer(self, request: HttpRequest, status: int, head: bytes, body: Buffer, *, keep: bool) -> None:
        """Sends a whole answer."""
        self.state.counters.responses[status] += 1
        self._out.write(head, body)
        if len(body) > LARGE_BYTES:
            self.share.unsent(self._out.unsent_bytes)
        if keep and request.complete and not self._waiting and not self.state.draining and not self._gate.paused:
            # Nothing waits for the end of this one: what `_answered` comes to then.
            self._current = None
            self._idle_since = self.state.now
        else:
            self._answered(request, keep=keep)

    def begin_answer(self, status: int, head: bytes) -> None:
        """Sends the head of a streamed answer."""
        self.state.counters.responses[status] += 1
        self._out.write(head)

    def send_chunk(self, chunk: bytes, *, chunked: bool) -> None:
        """Sends a piece of a streamed answer."""
        if not chunked:
            self._out.write(chunk)
        elif len(chunk) < _COPY_BYTES:
            self._out.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        else:
            self._out.write(b"%x\r\n" % len(chunk), chunk)
            self._out.write(b"\r\n")

    def end_answer(self, request: HttpRequest, *, last_chunk: bool, keep: bool) -> None:
        """Ends a streamed answer."""
        if last_chunk:
            self._out.write(b"0\r\n\r\n")
        self._answered(request, keep=keep)

    @property
    def write_paused(self) -> bool:
        """Whether the client reads too slowly."""
        return self._out.paused

    async def writable(self) -> None:
        """Waits until the client has read enough, or is gone."""
        if self._out.paused and not self._lost:
            await self._out.room()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the client has read enough, or is gone."""
        self._out.when_room(callback)

    def count_aborted_stream(self) -> None:
        """A streamed answer ends in an error."""
        self.state.counters.aborted_streams += 1

    def _answered(self, request: HttpRequest, *, keep: bool) -> None:
        if not keep or (self._reader.stopped and not request.complete):
            self._close(still_sending=not request.complete or self._reader.stopped)
        elif request.complete:
            self._proceed()
            if self._gate.paused:
                self.update_reading()
        else:
            body = request.inbound
            if body is not None:
                body.discard()
            self.update_reading()

    # Holding the client back.

    def update_reading(self) -> None:
        """Pauses or resumes the socket, as the state asks. To be called after every change of the state."""
        if not self._lost and self._gate.set(paused=self._must_pause()) and not self._gate.paused:
            # The time for which the client was held is not its own.
            self._read_at = self.state.now
            if self._head_since:
                self._head_since = self.state.now

    def _must_pause(self) -> bool:
        if self._linger_until:
            return self._linger_bytes > _LINGER_BYTES
        if self._reader.stopped or len(self._waiting) >= self.limits.max_pipelined:
            return True
        reading = self._reading
        if reading is not None and reading.inbound is not None and reading.inbound.full:
            return True
        # A client that does not read its answers may not ask for more of them. The request being answered is exempt:
        # its body may have to be read before its answer can end.
        return self._out.paused and (reading is None or reading is not self._current)

    # The end.

    def _client_gone(self) -> None:
        self._late_body = None
        if self._lost:
            return
        self._lost = True
        self._reader.stop()
        self._out.release()
        requests = [self._current, *self._waiting]
        if self._reading is not None and self._reading not in requests:
            requests.append(self._reading)
        self._waiting.clear()
        self._current = self._reading = None
        for request in requests:
            if request is None or request.finished:
                continue
            callback = request.client_gone()
            self.state.counters.disconnects += 1
            if callback is not None:
                tell_disconnect(request, callback)

    def abort(self) -> None:
        """Cuts the connection at once."""
        self._gate.forget()
        self._transport.abort()

    def close_when_idle(self) -> None:
        """Closes the connection if no request has begun on it."""
        if self._current is None and self._reading is None and not self._waiting and not self._reader.in_head:
            self._transport.close()

    def give_up(self, error: TrilithError) -> None:
        """Answers the current request, or the one that is still being read; those behind it are not begun."""
        request = self._current
        if request is None:
            if self._reading is not None:
                self._refuse(refusal.DRAINING)
        elif not request.finished:
            request.keep_alive = False
            give_up(request, error)

    def _close(self, *, still_sending: bool) -> None:
        self._reader.stop()
        self._current = self._reading = self._late_body = None
        self._waiting.clear()
        if not still_sending or self._lost:
            self._gate.forget()
            self._transport.close()
            return
        self._linger_until = monotonic() + self.limits.linger_timeout_s
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.update_reading()

    @property
    def busy(self) -> bool:
        """Whether a request has begun, or an answer is not with the client yet."""
        if self._current is not None or self._reading is not None or self._waiting:
            return True
        return self._out.unsent

    @property
    def idle_since(self) -> float | None:
        """Since when it waits for a request, in monotonic seconds; None when it does not."""
        if self._current is not None or self._reading is not None or self._linger_until or self._lost:
            return None
        if self._head_since and self.served:
            return None
        return None if self._reader.stopped or self._transport.is_closing() or self.busy else self._idle_since

    @property
    def late_body(self) -> LateBody | None:
        """What is known of a body that is slow to come."""
        late = self._late_body
        if late is None or late.request is not self._reading or self._gate.paused:
            return None
        return None if late.request.awaits_continue or self._reader.endless else late

    silent_since: float | None = None  # the client waits for the server

    def give_way(self) -> None:
        """Closes: another needs the place."""
        if self._reading is not None and not self._reader.stopped:
            self._refuse(refusal.TOO_MANY_CONNECTIONS)
        elif self.secure:  # TLS may take its time to close
            self.abort()
        else:
            self._transport.close()

    @property
    def in_flight(self) -> bool:
        """Whether the application owes an answer."""
        return self._current is not None and not self._current.finished

    # Time.

    def check(self, now: float) -> None:
        """Ends what has lasted too long.

        Args:
            now: the current monotonic instant in seconds.
        """
        limits = self.limits
        self.share.unsent(self._out.unsent_bytes)
        if self._late_body is not None and self._late_body.request is not self._reading:
            self._late_body = None
        if not self._out.is_moving(now, limits.write_timeout_s):
            self.state.counters.write_timeouts += 1
            self.abort()
        elif self._linger_until:
            if self._out.unsent:
                self._linger_until = now + limits.linger_timeout_s  # counts from when the answer is out
            elif now > self._linger_until:
                self.abort()
        elif self._gate.paused or self._transport.is_closing():
            return
        elif self._head_since:
            if now - self._head_since > limits.head_timeout_s:
                self._head_since = 0.0
                self._refuse(refusal.HEAD_TIMEOUT)
        elif self._reading is not None:
            if self._late_body is None:
                self._late_body = LateBody(self._reading, since=now)
            patient = self._reading.awaits_continue or self._reader.endless
            if now - self._read_at > limits.body_timeout_s and not patient:
                self._refuse(refusal.BODY_TIMEOUT)
        elif self._current is None and now - self._idle_since > limits.idle_timeout_s:
            self._transport.close()
