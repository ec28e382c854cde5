"""One client's streams fill a service, and another client comes."""

from __future__ import annotations

import base64
import contextlib
import json
import socket

from live_server import APPS

ONE, OTHER = "127.0.0.1", "127.0.0.2"


def opened(stack, server, octets):
    client = stack.enter_context(socket.create_connection((ONE, server.http), 30, source_address=(ONE, 0)))
    client.sendall(octets)
    return client


def asked(server, path):
    """The answer to another client."""
    with socket.create_connection((ONE, server.http), 30, source_address=(OTHER, 0)) as client:
        client.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % path)
        found = b""
        while piece := client.recv(65536):
            found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head[9:12]), json.loads(body)


def test_who_announces_a_body_and_sends_nothing_takes_no_place(serve_module):
    server = serve_module(f"{APPS}/crowded.py:Crowded")
    head = b"POST /body HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n"
    with contextlib.ExitStack() as stack:
        silent = [opened(stack, server, head % b"content-length: 2000000") for _ in range(9)]
        silent += [opened(stack, server, head % b"transfer-encoding: chunked") for _ in range(9)]
        assert asked(server, b"/quick") == (200, "quick")
        assert asked(server, b"/body") == (200, 0)
        silent[0].sendall(bytes(2_000_000))
        silent[-1].sendall(b"3\r\nabc\r\n0\r\n\r\n")
        for client, size in ((silent[0], b"2000000"), (silent[-1], b"3")):
            answer = client.recv(4096)
            while not answer.endswith(b"0\r\n\r\n") and size not in answer:
                answer += client.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")


def test_streams_that_stand_still_give_way_to_other_clients(serve_module):
    server = serve_module(f"{APPS}/crowded.py:Crowded")
    key = base64.b64encode(bytes(16))
    handshake = (
        b"GET /echo HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
        b"sec-websocket-key: %b\r\n\r\n" % key
    )
    with contextlib.ExitStack() as stack:
        sockets = [opened(stack, server, handshake) for _ in range(6)]
        readers = [
            opened(stack, server, b"POST /numbers HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n") for _ in range(2)
        ]
        for client in (*sockets, *readers):
            assert client.recv(12) in (b"HTTP/1.1 101", b"HTTP/1.1 200")  # and says no more, and reads no more
        assert asked(server, b"/quick") == (200, "quick")  # for a place
        assert asked(server, b"/plain") == (200, "plain")  # for a thread
        ended = [client.recv(65536) for client in sockets if _has_more_than_a_head(client)]
        assert ended
        assert b"so that others get a place" in ended[0]
    assert server.output.count("so that others get a place") >= 2


def _has_more_than_a_head(client):
    client.settimeout(0.1)
    octets = b""
    with contextlib.suppress(TimeoutError):
        while b"place" not in (octets := client.recv(65536, socket.MSG_PEEK)) and octets:
            client.recv(len(octets))
    client.settimeout(30)
    return b"place" in octets
