"""Clients that are no good, over real sockets: slow, rude, or of another protocol."""

import socket

import h2.config
import h2.connection
import h2.events
import pytest
from waiting import wait_until

from trilith.net.grpc import GrpcLimits


@pytest.fixture
def dial():
    """Opens raw connections: `dial(server)`."""
    opened = []

    def connect(server):
        opened.append(socket.create_connection(server.server.addresses[0], timeout=10))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def request_head(path):
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", path),
        ("content-type", "application/grpc"),
    ]


def h2_client(**options):
    return h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, **options))


def framed(message):
    return b"\0" + len(message).to_bytes(4, "big") + message


def until_closed(connection):
    octets = b""
    try:
        while piece := connection.recv(1 << 16):
            octets += piece
    except ConnectionResetError:
        return octets
    return octets


def test_http1_gets_an_answer_that_a_person_reads(serve, dial):
    connection = dial(serve())
    connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    answer = until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"gRPC" in answer


def test_a_bad_frame_gets_goaway_and_the_end(serve, dial):
    server = serve()
    connection, client = dial(server), h2_client()
    client.initiate_connection()
    connection.sendall(client.data_to_send() + b"\0\0\x05\x06\0\0\0\0\0hello")  # a PING of 5 octets
    events = client.receive_data(until_closed(connection))
    [ended] = [event for event in events if isinstance(event, h2.events.ConnectionTerminated)]
    assert ended.error_code == 6
    assert server.statistics.protocol_errors == {"FRAME_SIZE_ERROR": 1}


def test_a_client_that_does_not_read_costs_no_memory_and_is_cut(serve, dial):
    server = serve(limits=GrpcLimits(write_timeout_s=0.5))
    connection, client = dial(server), h2_client()
    client.initiate_connection()
    client.increment_flow_control_window((1 << 31) - 1 - 65_535)
    client.update_settings({4: (1 << 31) - 1})
    for number in range(20):
        client.send_headers(2 * number + 1, request_head("/s/Large"))
        client.send_data(2 * number + 1, framed(b"10000000"), end_stream=True)
    connection.sendall(client.data_to_send())
    wait_until(lambda: server.statistics.write_timeouts == 1)
    assert server.statistics.bytes_sent < 20_000_000  # of 200: the rest was never cut into frames
    assert server.statistics.connections == 0


def test_a_slow_reader_gets_all_of_it(serve, dial):
    server = serve()
    connection, client = dial(server), h2_client()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.initiate_connection()
    client.increment_flow_control_window(1 << 24)
    client.update_settings({4: 1 << 24})
    client.send_headers(1, request_head("/s/Large"))
    client.send_data(1, framed(b"5000000"), end_stream=True)
    connection.sendall(client.data_to_send())
    body, ended = b"", False
    while not ended:
        for event in client.receive_data(connection.recv(5000)):
            if isinstance(event, h2.events.DataReceived):
                body += event.data
            ended = ended or isinstance(event, h2.events.StreamEnded)
        connection.sendall(client.data_to_send())
    assert body == framed(b"z" * 5_000_000)


def test_a_client_that_vanishes_in_mid_message(serve, dial):
    server = serve()
    connection, client = dial(server), h2_client()
    client.initiate_connection()
    client.send_headers(1, request_head("/s/Echo"))
    client.send_data(1, framed(b"x" * 1000)[:500])
    connection.sendall(client.data_to_send())
    wait_until(lambda: server.statistics.in_flight == 1)
    connection.close()
    wait_until(lambda: server.statistics.connections == 0)
    assert server.call_soon(lambda: server.server._state.buffered_bytes) == 0
    assert server.app.calls == []
