"""A websocket to another server: messages either way, against the library's own server side."""

from hypothesis import given
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, Request, TextMessage

from trilith.wire.http1.answer_reader import AnswerReader
from trilith.wire.relayed_websocket import Closed, Opening, RelayedWebSocket


def opened(subprotocols=(), most=1 << 20):
    opening = Opening(bytes(16), subprotocols)
    head = [b"GET /chat HTTP/1.1", b"host: h", *(b"%s: %s" % header for header in opening.headers), b"", b""]
    server = WSConnection(ConnectionType.SERVER)
    server.receive_data(b"\r\n".join(head))
    [request] = server.events()
    assert isinstance(request, Request)
    answer = AnswerReader()
    answer.push(server.send(AcceptConnection(subprotocol=request.subprotocols[0] if subprotocols else None)))
    assert (answer.status, opening.why_not(answer.headers)) == (101, "")
    assert "token" in Opening(b"x" * 16, subprotocols).why_not(answer.headers)  # of another handshake
    extended = [*answer.headers, (b"sec-websocket-extensions", b"permessage-deflate")]
    assert opening.why_not(extended) == "the extension 'permessage-deflate', which was not offered"
    if not subprotocols:
        talked = [*answer.headers, (b"sec-websocket-protocol", b"talk")]
        assert opening.why_not(talked) == "the subprotocol 'talk', which was not offered"
    return RelayedWebSocket(max_message_bytes=most), server, request


MESSAGES = st.lists(st.one_of(st.text(max_size=300), st.binary(max_size=300)), max_size=6)


@given(MESSAGES, MESSAGES, st.integers(1, 40))
def test_messages_arrive_either_way_however_they_are_cut(to_server, to_client, size):
    client, server, _ = opened()
    for message in to_server:
        server.receive_data(client.message(message))
    assert [event.data for event in server.events()] == to_server
    octets = b"".join(
        server.send(TextMessage(data=one) if isinstance(one, str) else BytesMessage(data=one)) for one in to_client
    )
    got = [one for at in range(0, len(octets), size) for one in client.feed(octets[at : at + size])]
    assert got == to_client


def test_subprotocols_are_offered():
    assert opened(["chat", "other"])[2].subprotocols == ["chat", "other"]


def test_a_ping_is_answered():
    client, server, _ = opened()
    assert client.feed(server.send(Ping(payload=b"x"))) == []
    server.receive_data(client.to_send)
    assert list(server.events()) == [Pong(payload=b"x")]


def test_a_close_says_why():
    client, server, _ = opened()
    assert client.feed(server.send(CloseConnection(code=4001, reason="enough"))) == [Closed(4001, "enough")]
    assert client.close(1000) == b""
    client, server, _ = opened()
    server.receive_data(client.close(1001, "gone"))
    [event] = server.events()
    assert (event.code, event.reason) == (1001, "gone")


def test_a_message_that_is_too_long_closes_it():
    client, server, _ = opened(most=10)
    octets = server.send(BytesMessage(data=b"x" * 6, message_finished=False)) + server.send(BytesMessage(data=b"x" * 6))
    assert client.feed(octets) == [Closed(1009, "a message is longer than 10 bytes")]
    server.receive_data(client.to_send)
    [event] = server.events()
    assert event.code == 1009


def test_what_breaks_the_protocol_closes_it():
    client, _, _ = opened()
    [closed] = client.feed(b"\xff\xff\xff\xff\xff")
    assert closed.code == 1002


def test_a_text_that_is_none_is_said_in_words():
    client, server, _ = opened()
    assert client.feed(b"\x81\x02\xff\xff") == [Closed(1007, "a text message is no UTF-8: invalid start byte")]
    server.receive_data(client.to_send)
    [event] = server.events()
    assert event.code == 1007
