"""A client's websocket against the server's own: the handshake, messages both ways, and every end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.wire import websocket as wire
from trilith.wire.http1 import HttpLimits, RequestReader, ResponseHeads, accept_token
from trilith.wire.websocket import Closing, Pong, WebSocketReader
from trilith.wire.websocket_client import WebSocketClient


class Asked:
    """What a server sees of a handshake."""

    def __init__(self, octets: bytes) -> None:
        self.reader = RequestReader(self, HttpLimits())
        assert self.reader.feed(octets) is None
        assert self.reader.websocket

    def head_received(self, reader: RequestReader) -> None:
        self.headers = reader.headers
        self.target = f"{reader.path}?{reader.query}"

    def body_received(self, chunk: bytes) -> None:
        raise AssertionError(chunk)

    def message_received(self) -> None: ...

    def answer(self) -> bytes:
        heads = ResponseHeads()
        heads.refresh(b"now")
        return heads.switching(accept_token(self.headers), "id", (), fields=())


def opened() -> tuple[WebSocketClient, WebSocketReader]:
    client = WebSocketClient()
    asked = Asked(client.hello("h:1", "/a?b=1", {"x-note": "n", "accept": "*/*", "connection": "close"}))
    assert asked.target == "/a?b=1"
    assert (b"x-note", b"n") in asked.headers
    assert [value for name, value in asked.headers if name == b"connection"] == [b"Upgrade"]
    assert client.status == 0
    assert client.push(asked.answer()) == ([], b"")
    assert client.status == 101
    return client, WebSocketReader(max_message_bytes=1 << 20)


def sent(message: str | bytes) -> bytes:
    payload = message.encode() if isinstance(message, str) else message
    return wire.message_head(len(payload), text=isinstance(message, str), compressed=False) + payload


@given(st.lists(st.one_of(st.text(max_size=200), st.binary(max_size=200)), max_size=8), st.integers(1, 50))
def test_messages_go_both_ways(messages, cut):
    client, server = opened()
    for message in messages:
        server.feed(client.message(message))
        assert server.next() == message
    octets = b"".join(map(sent, messages))
    found = []
    for at in range(0, len(octets), cut):
        came, answer = client.push(octets[at : at + cut])
        found += came
        assert answer == b""
    assert found == messages


def test_signs_of_life_are_answered_and_a_close_is_too():
    client, server = opened()
    messages, answer = client.push(sent("one") + wire.ping_frame(b"there?") + sent("two"))
    assert messages == ["one", "two"]
    server.feed(answer)
    assert server.next() == Pong(b"there?")
    messages, answer = client.push(sent("last") + wire.close_frame(1011, "it broke"))
    assert messages == ["last"]
    assert (client.code, client.reason) == (1011, "it broke")
    server.feed(answer)
    assert server.next() == Closing(1011, "it broke")
    assert client.message("late") == b""


def test_messages_that_come_with_the_handshake():
    client = WebSocketClient()
    asked = Asked(client.hello("h", "/", {}))
    messages, _ = client.push(asked.answer() + sent("early"))
    assert messages == ["early"]


@pytest.mark.parametrize("cut", [20, 60, 110])
def test_a_refusal_has_its_status_and_its_body(cut):
    body = b'{"error":{"code":"unauthenticated","message":"who?"}}'
    octets = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: %d\r\nRetry-After: 3\r\n\r\n%b" % (len(body), body)
    client = WebSocketClient()
    client.hello("h", "/", {})
    for piece in (octets[:cut], octets[cut:]):
        assert not client.refused
        client.push(piece)
    assert (client.status, client.refusal, client.refused) == (401, body, True)
    assert client.headers["retry-after"] == "3"


def test_the_end_of_the_connection_may_be_that_of_a_refusal():
    client = WebSocketClient()
    client.hello("h", "/", {})
    assert not client.end()
    client.push(b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>")
    assert not client.refused
    assert client.end()
    assert (client.status, client.refusal, client.refused) == (502, b"<html>", True)
    assert not opened()[0].end()


@pytest.mark.parametrize(
    "octets", [b"nonsense\r\n\r\n", b"HTTP/1.1 101 X\r\n\r\n", b"HTTP/1.1 101 X\r\nupgrade: websocket\r\n\r\n"]
)
def test_what_is_no_answer_to_it(octets):
    client = WebSocketClient()
    client.hello("h", "/", {})
    with pytest.raises(ValueError, match="no websocket"):
        client.push(octets)


def test_a_breach_of_the_server_is_a_close():
    client, _ = opened()
    client.push(b"\xff\xff")
    assert client.code == 1002
