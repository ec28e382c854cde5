"""A request that becomes a websocket, and the websocket to its end, on a transport that only remembers."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from websocket_octets import BINARY, CONTINUATION, PING, PONG, TEXT, close, deflated, frame, handshake, said

from memory_circles import no_circles
from trilith.errors import Bug, Forbidden, ServiceError
from trilith.net.http1 import HttpRequest, WebSocket, WebSocketClosed

Connect = Callable[..., Any]


class Chat:
    """An application, one client of it, and what became of both."""

    def __init__(self, connect: Connect, *lines: str, app: Any = None, behind: bytes = b"", **limits: Any) -> None:
        self.websocket: WebSocket | None = None
        self.request: HttpRequest | None = None
        self.got: list[Any] = []
        self.client = connect(app if app is not None else self.echo, **limits)
        self.client.connection.data_received(handshake(*lines) + behind)
        self.settle()

    async def echo(self, request: HttpRequest) -> None:
        self.request = request
        websocket = self.websocket = WebSocket(request)
        await websocket.accept()
        try:
            while True:
                message = await websocket.receive()
                self.got.append(message)
                await websocket.send(message)
        except WebSocketClosed as closed:
            self.got.append((closed.code, closed.reason))
            raise

    def settle(self) -> None:
        for _ in range(12):
            self.client.loop.run_until_complete(asyncio.sleep(0))

    def send(self, *octets: bytes) -> None:
        for piece in octets:
            self.client.transport.protocol.data_received(piece)
        self.settle()

    def leave(self) -> None:
        transport = self.client.transport
        transport.closed = True
        protocol, transport.protocol = transport.protocol, None
        protocol.connection_lost(None)
        self.settle()

    def at(self, seconds: float) -> None:
        self.client.transport.protocol.check(self.client.state.now + seconds)
        self.settle()

    @property
    def head(self) -> bytes:
        return self.client.transport.written.partition(b"\r\n\r\n")[0]

    @property
    def said(self) -> list[tuple[str, bytes]]:
        return said(self.client.transport.written.partition(b"\r\n\r\n")[2])


def test_the_handshake_is_answered_as_the_rfc_says(connect: Connect) -> None:
    chat = Chat(connect, "Sec-WebSocket-Protocol: a, b", "X-Request-Id: mine")
    assert chat.head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in chat.head  # the example of RFC 6455, 1.3
    assert b"\r\nx-request-id: mine" in chat.head
    assert re.search(rb"\r\nconnection: Upgrade\r\n", chat.head)
    assert b"protocol:" not in chat.head
    assert b"extensions" not in chat.head
    assert chat.websocket is not None
    assert chat.websocket.subprotocols == ("a", "b")
    assert chat.client.state.counters.responses == {101: 1}


@pytest.mark.parametrize(
    "lines",
    [
        ("Connection: keep-alive, Upgrade", "Upgrade: WebSocket"),
        ("connection: UPGRADE", "upgrade: WEBSOCKET"),
        ("Connection: upgrade", "Content-Length: 0", "Upgrade: websocket"),
    ],
)
def test_browsers_and_proxies_write_it_in_other_ways(connect: Connect, lines: tuple[str, ...]) -> None:
    client = connect(lambda request: WebSocket(request).open())
    usual = "Upgrade: websocket\r\nConnection: Upgrade"
    client.connection.data_received(handshake().decode().replace(usual, "\r\n".join(lines)).encode())
    assert client.transport.written.startswith(b"HTTP/1.1 101 ")
    client.transport.protocol.connection_lost(None)
    client.loop.run_until_complete(asyncio.sleep(0))


def test_messages_go_both_ways_those_behind_the_handshake_included(connect: Connect) -> None:
    chat = Chat(connect, behind=frame(TEXT, b"early") + frame(BINARY, b"also")[:3])
    chat.send(frame(BINARY, b"also")[3:], frame(TEXT, "grün".encode()))
    assert chat.got == ["early", b"also", "grün"]
    assert chat.said == [("TEXT", b"early"), ("BINARY", b"also"), ("TEXT", "grün".encode())]
    chat.send(close(1000, "bye"))
    assert chat.got[-1] == (1000, "bye")
    assert chat.said[-1] == ("CLOSE", b"\x03\xe8bye")
    assert chat.client.transport.closed
    assert chat.client.state.counters.disconnects == 0


def test_a_subprotocol_and_headers_of_the_application(connect: Connect) -> None:
    async def app(request: HttpRequest) -> None:
        websocket = WebSocket(request)
        for wrong in ("c", ""):
            with pytest.raises(ServiceError, match="subprotocols a, b"):
                await websocket.accept(wrong)
        for name in (b"Sec-WebSocket-Accept", b"upgrade", b"a b"):
            with pytest.raises(ServiceError):
                await websocket.accept(None, [(name, b"x")])
        with pytest.raises(Bug):
            await websocket.receive()
        await websocket.accept("b", [(b"x-room", b"7")])
        with pytest.raises(WebSocketClosed):
            await websocket.accept()
        await websocket.send("hello")

    chat = Chat(connect, "Sec-WebSocket-Protocol: a,b", app=app)
    assert b"\r\nsec-websocket-protocol: b\r\nx-room: 7" in chat.head
    # An application that ends closes it.
    assert chat.said == [("TEXT", b"hello"), ("CLOSE", b"\x03\xe8")]


BAD_HANDSHAKES = {
    "no version": ("Sec-WebSocket-Version: 13\r\n", "", 426),
    "an old version": ("Version: 13", "Version: 8", 426),
    "two versions": ("Version: 13", "Version: 13\r\nSec-WebSocket-Version: 13", 426),
    "no key": ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400),
    "a short key": ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZQ==", 400),
    "a key that is none": ("dGhlIHNhbXBsZSBub25jZQ==", "!!!!", 400),
    "two keys": ("Sec-WebSocket-Key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key", 400),
    "by POST": ("GET /", "POST /", 501),
    "with a body": ("Host: a", "Host: a\r\nContent-Length: 2", 501),
    "over HTTP/1.0": ("HTTP/1.1", "HTTP/1.0", 501),
    "to something else": ("Upgrade: websocket", "Upgrade: gopher", 501),
}


@pytest.mark.parametrize(("old", "new", "status"), BAD_HANDSHAKES.values(), ids=BAD_HANDSHAKES)
def test_a_handshake_that_is_none_reaches_no_application(connect: Connect, old: str, new: str, status: int) -> None:
    seen: list[HttpRequest] = []
    client = connect(seen.append)
    client.send(handshake().decode().replace(old, new, 1).encode())
    assert client.statuses == [status]
    assert seen == []
    assert (b"\r\nsec-websocket-version: 13" in client.transport.written) == (status == 426)
    assert (b"\r\nupgrade: websocket" in client.transport.written) == (status == 426)
    assert client.transport.eof


def test_an_application_that_does_not_look_answers_it_as_a_request(connect: Connect) -> None:
    client = connect(lambda request: request.respond(200, b"page"))
    client.send(handshake() + b"\x81\x00")
    assert client.statuses == [200]
    assert b"\r\nconnection: close" in client.transport.written
    assert client.transport.protocol is None


def test_a_refusal_of_an_application_has_its_status(connect: Connect) -> None:
    async def app(request: HttpRequest) -> None:
        WebSocket(request)
        raise Forbidden("not you")

    client = connect(app)
    client.send(handshake())
    assert client.statuses == [403]


def test_it_waits_for_its_turn_and_ends_the_connection_for_http(connect: Connect) -> None:
    waiting: list[HttpRequest] = []

    def app(request: HttpRequest) -> Any:
        if request.switches is None:
            return waiting.append(request)
        websocket = WebSocket(request)
        websocket.open()
        websocket.write("now")
        return None

    client = connect(app)
    client.connection.data_received(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n" + handshake() + frame(TEXT, b"x"))
    assert client.statuses == []
    waiting.pop().respond(200, b"one")
    assert b"one" in client.transport.written
    assert client.transport.written.endswith(b"\x81\x03now")
    assert client.transport.reading
    assert list(client.state.connections) == [client.transport.protocol]
    client.transport.protocol.connection_lost(None)
    client.loop.run_until_complete(asyncio.sleep(0))


def test_a_client_that_goes_before_it_is_accepted(connect: Connect) -> None:
    held: list[HttpRequest] = []
    client = connect(held.append)
    client.connection.data_received(handshake())
    websocket = WebSocket(held[0])
    assert not client.transport.reading
    client.leave()
    with pytest.raises(WebSocketClosed):
        websocket.open()
    assert b"101" not in client.transport.written


def test_signs_of_life_are_answered_and_asked_for(connect: Connect) -> None:
    chat = Chat(connect, websocket_ping_s=20.0, websocket_pong_s=10.0)
    chat.send(frame(PING, b"1") + frame(PING, b"2"), frame(PING, b"3"))
    assert chat.said == [("PONG", b"2"), ("PONG", b"3")]
    chat.at(19)
    assert chat.said[2:] == []
    chat.at(21)
    chat.at(29)
    assert chat.said[2:] == [("PING", b"")]
    chat.client.state.now += 29
    chat.send(frame(PONG))
    chat.at(19)
    assert chat.said[3:] == []
    chat.at(21)
    chat.at(31)
    assert chat.client.transport.aborted
    chat.leave()
    assert chat.got == [(1006, "")]


VIOLATIONS = {
    "too long": (frame(BINARY, b"x" * 101), 1009, "a message is longer than 100 bytes"),
    "no text": (frame(TEXT, b"\xff"), 1007, "UTF-8"),
    "no mask": (frame(TEXT, b"x", mask=None), 1002, "unmasked"),
}


@pytest.mark.parametrize(("octets", "code", "words"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_violation_closes_it_and_says_why(connect: Connect, octets: bytes, code: int, words: str) -> None:
    chat = Chat(connect, max_body_bytes=100)
    chat.send(frame(TEXT, b"fine") + octets, b"more", frame(TEXT, b"unread"))
    assert chat.got == ["fine", (code, chat.got[1][1])]
    assert words in chat.got[1][1]
    assert chat.said[-1] == ("CLOSE", code.to_bytes(2, "big") + chat.got[1][1].encode())
    assert chat.client.transport.eof
    assert chat.client.transport.reading, "what it still sends is dropped, or a reset would destroy the reason"
    assert not chat.client.transport.closed
    chat.at(3)
    assert chat.client.transport.aborted


def test_what_is_not_taken_holds_the_client(connect: Connect) -> None:
    sockets: list[WebSocket] = []

    def app(request: HttpRequest) -> None:
        websocket = WebSocket(request)
        websocket.open()
        sockets.append(websocket)

    chat = Chat(connect, app=app, read_ahead_bytes=10_000)
    chat.send(*(frame(BINARY, bytes([at]) * 100) for at in range(6)))
    assert chat.client.transport.reading
    chat.send(b"".join(frame(BINARY, bytes([at]) * 100) for at in range(6, 12)))
    assert not chat.client.transport.reading
    assert chat.client.state.held.held_bytes > 1000
    [websocket] = sockets
    called: list[int] = []
    websocket.when_message(lambda: called.append(1))
    chat.settle()
    assert called
    taken = []
    while (message := websocket.take()) is not None:
        taken.append(message[:1])
    assert taken == [bytes([at]) for at in range(12)]
    assert chat.client.transport.reading
    assert chat.client.state.held.held_bytes == 0
    chat.leave()


@pytest.mark.parametrize(
    "empty", [frame(PING), frame(PONG), frame(TEXT, b"", fin=False) + frame(CONTINUATION, b"", fin=False)]
)
def test_many_empty_frames_are_read_in_turns(connect: Connect, empty: bytes) -> None:
    """43,000 of them in one read of the socket would hold everybody else for a third of a second."""
    end = b"" if empty[0] & 8 else frame(CONTINUATION)
    more = frame(CONTINUATION, b"", fin=False) if end else b""
    chat = Chat(connect)
    octets = empty + (more or empty) * 2000 + end + frame(TEXT, b"behind them")
    chat.client.transport.protocol.data_received(octets)
    assert not chat.client.transport.reading
    assert chat.client.transport.protocol._inbox.held_bytes > len(octets) // 2, "most of it is not looked at yet"
    chat.settle()
    assert chat.got == ([""] if end else []) + ["behind them"]
    assert chat.client.transport.reading
    chat.leave()


def test_a_client_that_hangs_up_while_it_is_held_is_noticed(connect: Connect) -> None:
    sockets: list[WebSocket] = []

    def app(request: HttpRequest) -> None:
        websocket = WebSocket(request)
        websocket.open()
        sockets.append(websocket)

    chat = Chat(connect, app=app, read_ahead_bytes=100)
    chat.send(frame(BINARY, b"x" * 200))
    protocol = chat.client.transport.protocol
    assert protocol in chat.client.watch.watched
    protocol.hung_up()
    chat.settle()
    assert sockets[0].closed is not None
    assert sockets[0].closed.code == 1006
    assert sockets[0].take() == b"x" * 200, "what had come is not lost"


def test_a_slow_reader_holds_its_sender(connect: Connect) -> None:
    chat = Chat(connect)
    chat.client.transport.protocol.pause_writing()
    chat.send(frame(TEXT, b"1"), frame(TEXT, b"2"), frame(PING, b"?"))
    assert chat.got == ["1"]
    assert chat.said == [("TEXT", b"1")], "and no pong: it would wait in the same line"
    chat.client.transport.protocol.resume_writing()
    chat.settle()
    assert chat.got == ["1", "2"]
    chat.client.transport.protocol.pause_writing()
    chat.send(frame(TEXT, b"3"))
    chat.leave()
    assert chat.got[-1] == (1006, "")


def test_a_client_that_reads_nothing_is_cut_off(connect: Connect) -> None:
    chat = Chat(connect, write_timeout_s=5.0)
    chat.client.transport.unsent = 10
    chat.send(frame(TEXT, b"1"))
    chat.at(1)
    chat.at(7)
    assert chat.client.transport.aborted


def test_compression_is_agreed_and_bounded(connect: Connect) -> None:
    chat = Chat(connect, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", max_body_bytes=20_000)
    assert b"\r\nsec-websocket-extensions: permessage-deflate; server_no_context" in chat.head
    chat.send(frame(TEXT, deflated(b"abc" * 3000), bits=4))
    assert chat.got == ["abc" * 3000]
    assert chat.said == [("TEXT", b"abc" * 3000)]
    assert len(chat.client.transport.written) < 1000
    chat.send(frame(BINARY, deflated(b"\0" * 1_000_000), bits=4))
    assert chat.got[-1] == (1009, "a message is longer than 20000 bytes")


def test_an_application_that_fails_closes_with_1011_and_tells_nothing(connect: Connect) -> None:
    async def app(request: HttpRequest) -> None:
        websocket = WebSocket(request)
        await websocket.accept()
        raise ValueError("the secret is 42")

    chat = Chat(connect, app=app)
    [(name, reason)] = chat.said
    assert (name, reason[:2]) == ("CLOSE", b"\x03\xf3")
    assert b"42" not in reason


def test_the_server_closes_and_waits_for_the_client(connect: Connect) -> None:
    for answered in (True, False):
        ended: list[int] = []

        async def app(request: HttpRequest, ended: list[int] = ended) -> None:
            request.on_end = lambda: ended.append(1)
            websocket = WebSocket(request)
            await websocket.accept()
            await websocket.close(4001, "enough")
            await websocket.close(4002, "again")
            with pytest.raises(WebSocketClosed, match="4001: enough"):
                await websocket.send("late")
            with pytest.raises(WebSocketClosed):
                await websocket.receive()

        chat = Chat(connect, app=app, websocket_close_s=5.0)
        assert chat.said == [("CLOSE", b"\x0f\xa1enough")]
        assert ended == [1]
        chat.send(frame(TEXT, b"on its way"), frame(BINARY, b"also", fin=False))
        assert not chat.client.transport.closed
        if answered:
            chat.send(frame(CONTINUATION) + close(4001))
            assert chat.client.transport.closed
            assert not chat.client.transport.aborted
        else:
            chat.at(6)
            assert chat.client.transport.aborted
        chat.leave()


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2000, 5000])
def test_it_is_not_closed_with_a_code_that_there_is_not(connect: Connect, code: int) -> None:
    async def app(request: HttpRequest) -> None:
        websocket = WebSocket(request)
        await websocket.accept()
        with pytest.raises(ServiceError, match="1000 to 1003"):
            await websocket.close(code)
        with pytest.raises(ServiceError, match="Unicode"):
            await websocket.send("\ud800")

    assert Chat(connect, app=app).said == [("CLOSE", b"\x03\xe8")]


def test_a_server_that_stops_says_so(connect: Connect) -> None:
    chat = Chat(connect)
    assert chat.client.transport.protocol.in_flight
    chat.client.state.draining = True
    chat.client.transport.protocol.close_when_idle()
    chat.settle()
    assert chat.said == [("CLOSE", b"\x03\xe9the server is stopping")]
    assert chat.got == [(1001, "the server is stopping")]
    assert not chat.client.transport.protocol.in_flight


def test_one_that_wants_to_end_by_itself_is_closed_when_the_time_is_over(connect: Connect) -> None:
    told: list[int] = []

    async def app(request: HttpRequest) -> None:
        websocket = WebSocket(request)
        await websocket.accept()
        websocket.when_draining(lambda: told.append(1))
        with pytest.raises(WebSocketClosed):
            await websocket.receive()

    chat = Chat(connect, app=app)
    chat.client.state.draining = True
    chat.client.transport.protocol.close_when_idle()
    chat.settle()
    assert told == [1]
    assert chat.said == []
    chat.client.transport.protocol.abort()
    assert chat.said == [("CLOSE", b"\x03\xe9the server is stopping")]
    assert chat.client.transport.closed
    assert not chat.client.transport.aborted


def test_too_much_held_by_the_process_closes_it(connect: Connect) -> None:
    chat = Chat(connect, app=lambda request: WebSocket(request).open())
    chat.client.state.held.limit_bytes = 1000
    chat.send(frame(BINARY, b"x" * 2000))
    assert chat.said[-1][1][:2] == (1013).to_bytes(2, "big")
    assert chat.client.state.held.refused == 1
    chat.leave()
    assert chat.client.state.held.held_bytes == 0


def _clean(chat: Chat) -> None:
    chat.send(close(1000))


def _broken(chat: Chat) -> None:
    chat.send(b"\xff\xff")


def _half(chat: Chat) -> None:
    chat.client.transport.protocol.eof_received()


def _drained(chat: Chat) -> None:
    chat.client.state.draining = True
    chat.client.transport.protocol.close_when_idle()


def _nothing(chat: Chat) -> None:
    assert not chat.client.transport.closed


async def _echo(request: HttpRequest) -> None:
    websocket = WebSocket(request)
    await websocket.accept()
    while True:
        await websocket.send(await websocket.receive())


async def _ended(request: HttpRequest) -> None:
    await WebSocket(request).accept()


async def _failed(request: HttpRequest) -> None:
    await WebSocket(request).accept()
    raise ServiceError("no")


class _Callbacks:
    def __call__(self, request: HttpRequest) -> None:
        websocket = WebSocket(request)
        websocket.open()
        request.on_disconnect = lambda: _touch(request, websocket)
        websocket.when_message(lambda: _touch(websocket, request))
        websocket.when_writable(lambda: _touch(websocket, request))
        websocket.when_draining(lambda: _touch(websocket, request))


def _touch(*things: object) -> None:
    assert all(things)


@pytest.mark.parametrize("app", [_echo, _ended, _failed, _Callbacks()], ids=["echo", "ends", "fails", "callbacks"])
def test_no_end_leaves_a_circle(connect: Connect, app: Any) -> None:
    sent = {
        "nothing": b"",
        "a message": frame(BINARY, b"x" * 3000),
        "half a message": frame(BINARY, b"x" * 3000, fin=False),
        "half a frame": frame(BINARY, b"x" * 3000)[:-5],
    }
    with no_circles():
        for octets in sent.values():
            for end in (_nothing, _clean, _broken, _half, _drained):
                chat = Chat(connect, app=app, behind=octets)
                end(chat)
                chat.leave()
                chat.client.loop.run_until_complete(asyncio.sleep(0))
                del chat
