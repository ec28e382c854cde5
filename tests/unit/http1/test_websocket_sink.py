"""The websocket of a call, between a connection that only remembers and a router that only keeps: in which order."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from websocket_octets import TEXT, close, frame, handshake, said

from memory_circles import no_circles
from trilith.errors import Cancelled, InvalidInput, PayloadTooLarge, QueueFull, ServiceError, UnsupportedMediaType
from trilith.net.http1 import HttpRequest
from trilith.net.transport import Item
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.socket_front import SocketStreams
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.telemetry import TimelineShelf
from trilith.wire.calls import ResultMeta, pack_meta, unpack_call

JSON, LINES = "application/json", "application/jsonl"
BOTH = MethodRoute(
    service="S",
    method="both",
    timeout_s=30.0,
    idempotent=False,
    batch_rows=0,
    batch_wait_s=0.0,
    max_waiting=10,
    offers=("text/event-stream", LINES),
    streams_out=True,
    takes=(LINES,),
)


def route(**changes: Any) -> MethodRoute:
    return dataclasses.replace(BOTH, **changes)


def item(octets: bytes) -> Item:
    return Item(b"", [memoryview(bytearray(octets))], len(octets))


class Stream:
    """As much of a stream as a call knows."""

    def __init__(self) -> None:
        self.call_id = 1
        self.writable = True
        self.closed = False
        self.held_items = 0
        self.on_writable: Any = None
        self.sent: list[tuple[bytes, bytes]] = []
        self.ended = False
        self.taken = 0

    def send(self, buffers: Any, meta: bytes) -> bool:
        self.sent.append((b"".join(buffers), meta))
        return self.writable

    def end(self) -> None:
        self.ended = True

    def took(self, size_bytes: int) -> None:
        self.taken += size_bytes


class Router:
    """Keeps a call until the test says that a replica has it."""

    def __init__(self) -> None:
        self.calls: list[StreamCall] = []
        self.cancelled: list[Any] = []
        self.refuses: Any = None
        self.stream = Stream()

    def submit(self, call: StreamCall) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.calls.append(call)

    def fail(self, call: StreamCall, error: Any) -> None:
        call.settled = True
        call.sink.fail(call, error)

    def cancel(self, call: StreamCall, error: Any = None) -> None:
        if call.settled:
            return
        self.cancelled.append(error)
        self.fail(call, Cancelled("gone") if error is None else error)

    def begin(self) -> StreamCall:
        """A replica has the call."""
        call = self.calls[0]
        call.open(self, lambda reply: None, Counts())  # type: ignore[arg-type]
        return call

    def open(self, *_: Any, **__: Any) -> Stream:
        """As a `Peer`."""
        return self.stream

    def answer(self, body: bytes = b"", content_type: str = JSON) -> None:
        call = self.calls[0]
        call.settled = True
        call.sink.answer(call, pack_meta(ResultMeta(content_type)), (body,))


class Counts:
    given = taken = 0


class Socket:
    """A server of one method, and its client."""

    def __init__(self, connect: Callable[..., Any], served: MethodRoute, target: str = "/chat", *lines: str) -> None:
        self.router = Router()
        streams = SocketStreams(self.router, TimelineShelf())  # type: ignore[arg-type]

        def app(request: HttpRequest) -> None:
            streams.take(request, served)

        self.client = connect(app)
        self.octets = handshake(*lines).replace(b"/chat", target.encode())

    def ask(self, behind: bytes = b"") -> "Socket":
        self.client.loop.call_soon(self.client.connection.data_received, self.octets + behind)
        self.settle()
        return self

    def settle(self) -> None:
        for _ in range(5):
            self.client.loop.run_until_complete(asyncio.sleep(0))

    def send(self, octets: bytes) -> None:
        self.client.transport.protocol.data_received(octets)
        self.settle()

    def leave(self) -> None:
        transport = self.client.transport
        transport.closed = True
        protocol, transport.protocol = transport.protocol, None
        (protocol or self.client.connection).connection_lost(None)
        self.settle()
        self.router.calls.clear()  # as a router does with what is over, and a connection with its streams
        self.router.stream.on_writable = None

    @property
    def said(self) -> list[tuple[str, bytes]]:
        head, _, frames = self.client.transport.written.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        return said(frames)


def test_the_handshake_is_answered_when_a_replica_has_the_call(connect: Callable[..., Any]) -> None:
    socket = Socket(connect, BOTH, "/chat?a=1", "Accept: text/html", "X-Note: n").ask(frame(TEXT, b"1"))
    assert socket.client.transport.written == b""
    meta = unpack_call(socket.router.calls[0].meta)
    assert (meta.query, meta.content_type) == ("a=1", JSON)
    assert meta.headers == {"x-note": "n", "accept": JSON}
    call = socket.router.begin()
    socket.settle()
    socket.send(frame(TEXT, b"2"))
    assert socket.router.stream.sent == [(b"1", b""), (b"2", b"")]
    call.sink.item(call, item(b"3"))
    assert socket.router.stream.taken
    socket.send(frame(TEXT, b""))
    assert socket.router.stream.ended
    socket.router.answer()
    assert socket.said == [("TEXT", b"3"), ("CLOSE", b"\x03\xe8")]
    socket.leave()


def test_what_fails_before_has_its_status(connect: Callable[..., Any]) -> None:
    socket = Socket(connect, BOTH)
    socket.router.refuses = QueueFull("full")
    socket.ask()
    assert socket.client.statuses == [429]
    assert b"trilith-not-begun: 1" in socket.client.transport.written
    socket = Socket(connect, BOTH).ask()
    socket.router.fail(socket.router.calls[0], InvalidInput("no"))
    assert socket.client.statuses == [400]
    socket = Socket(connect, route(streams_out=False, takes=())).ask()
    assert socket.client.statuses == [405]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("x"), 1008),
        (UnsupportedMediaType("x"), 1003),
        (PayloadTooLarge("x"), 1009),
        (QueueFull("x"), 1013),
        (ServiceError("x"), 1011),
    ],
)
def test_a_failure_is_a_last_message_and_a_close(connect: Callable[..., Any], error: Any, code: int) -> None:
    socket = Socket(connect, BOTH).ask()
    socket.router.begin()
    socket.router.cancel(socket.router.calls[0], error)
    [(kind, told), (end, reason)] = socket.said
    assert (kind, end) == ("TEXT", "CLOSE")
    assert msgspec.json.decode(told)["error"]["code"] == error.code
    assert reason == code.to_bytes(2, "big") + b"x"
    socket.leave()


def test_messages_wait_until_the_method_wants_them(connect: Callable[..., Any]) -> None:
    socket = Socket(connect, BOTH).ask()
    socket.router.stream.writable = False
    call = socket.router.begin()
    socket.send(frame(TEXT, b"1") + frame(TEXT, b"2"))
    assert socket.router.stream.sent == []
    socket.router.stream.writable = True
    call.sink.writable(call)
    assert [octets for octets, _ in socket.router.stream.sent] == [b"1", b"2"]
    socket.leave()
    assert socket.router.cancelled == [None]


def test_a_slow_client_holds_what_the_method_gives(connect: Callable[..., Any]) -> None:
    socket = Socket(connect, BOTH).ask()
    call = socket.router.begin()
    protocol = socket.client.transport.protocol
    protocol.pause_writing()
    for _ in range(3):
        call.sink.item(call, item(b"1"))
    assert socket.router.stream.taken == 0
    protocol.resume_writing()
    assert socket.router.stream.taken == 3 * item(b"1").size_bytes
    socket.leave()


def test_arguments_come_first_where_nothing_else_gives_them(connect: Callable[..., Any]) -> None:
    asks = route(takes=(), arguments=True)
    socket = Socket(connect, asks).ask()
    assert socket.router.calls == []
    assert socket.said == []
    socket.send(frame(TEXT, b'{"n": 1}'))
    assert unpack_call(socket.router.calls[0].meta).content_type == JSON
    assert socket.router.calls[0].buffers == (b'{"n": 1}',)
    socket.router.begin()
    assert socket.router.stream.ended
    socket.send(frame(TEXT, b"more"))
    assert isinstance(socket.router.cancelled[0], InvalidInput)
    socket.leave()
    socket = Socket(connect, asks, "/chat?n=1").ask()
    assert len(socket.router.calls) == 1
    socket.leave()
    socket = Socket(connect, route(takes=())).ask()
    assert len(socket.router.calls) == 1
    socket.leave()


def test_one_result_is_one_message(connect: Callable[..., Any]) -> None:
    for content_type, kind in ((JSON, "TEXT"), ("text/plain; charset=utf-8", "TEXT"), ("image/png", "BINARY")):
        socket = Socket(connect, route(streams_out=False)).ask()
        socket.router.begin()
        socket.send(frame(TEXT, b""))
        socket.router.answer(b"12", content_type)
        assert socket.said == [(kind, b"12"), ("CLOSE", b"\x03\xe8")]
        socket.leave()


def test_a_server_that_stops_ends_what_goes_in_where_answers_come_out(connect: Callable[..., Any]) -> None:
    for served, ends in ((BOTH, True), (route(streams_out=False), False)):
        socket = Socket(connect, served).ask()
        socket.router.begin()
        socket.client.transport.protocol.close_when_idle()
        assert socket.router.stream.ended == ends
        socket.send(frame(TEXT, b"1"))
        assert bool(socket.router.stream.sent) != ends
        socket.router.answer(b"2")
        assert socket.said[-1][1][:2] == (b"\x03\xe9" if ends else b"\x03\xe8")
        socket.leave()


def _answered(socket: Socket) -> None:
    socket.router.begin()
    socket.router.answer(b"1")


def _failed(socket: Socket) -> None:
    socket.router.begin()
    socket.router.cancel(socket.router.calls[0], InvalidInput("x"))


def _begun(socket: Socket) -> None:
    call = socket.router.begin()
    call.sink.item(call, item(b"1" * 3000))


def _held(socket: Socket) -> None:
    call = socket.router.begin()
    socket.client.transport.protocol.pause_writing()
    call.sink.item(call, item(b"1" * 3000))


def _closed(socket: Socket) -> None:
    socket.router.begin()
    socket.send(close(1000))


def _nothing(socket: Socket) -> None:
    assert socket.router.calls


@pytest.mark.parametrize("end", [_answered, _failed, _begun, _held, _closed, _nothing])
def test_no_call_leaves_a_circle(connect: Callable[..., Any], end: Callable[[Socket], None]) -> None:
    with no_circles():
        for served in (BOTH, route(streams_out=False), route(takes=())):
            socket = Socket(connect, served).ask()
            end(socket)
            socket.leave()
            del socket


def test_who_asks_for_nothing_leaves_no_circle(connect: Callable[..., Any]) -> None:
    with no_circles():
        socket = Socket(connect, route(takes=(), arguments=True)).ask()
        socket.leave()
        del socket
