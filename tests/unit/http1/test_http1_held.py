"""What one HTTP/1.1 server holds for its clients has a bound."""

from collections.abc import Callable
from typing import Any

import pytest

from trilith.errors import Bug
from trilith.net.held_bytes import HeldBytes
from trilith.net.http1.request import HttpRequest

Connect = Callable[..., Any]
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


def bounded(client: Any, limit_bytes: int) -> HeldBytes:
    held: HeldBytes = client.state.held
    fresh = HeldBytes(limit_bytes, limit_bytes)
    held.limit_bytes, held.share_bytes, held.last_bytes = fresh.limit_bytes, fresh.share_bytes, fresh.last_bytes
    return held


def test_unfinished_bodies(connect: Connect) -> None:
    first = connect([].append)
    held = bounded(first, 10_000)
    clients = [first, *(first.another() for _ in range(3))]
    for client in clients:
        client.send(POST % 100_000, b"x" * 4_000)
    assert [client.statuses for client in clients] == [[], [], [429], [429]]
    assert b"queue_full" in clients[2].transport.written
    assert b"--max-held-mb" in clients[2].transport.written
    assert held.held_bytes == 8_000
    assert first.state.counters.refused["held_bytes"] == 2
    for client in clients:
        client.leave()
    assert held.held_bytes == 0


def test_requests_that_wait_for_their_answer(connect: Connect) -> None:
    requests: list[HttpRequest] = []
    first = connect(requests.append)
    held = bounded(first, 10_000)
    clients = [first, *(first.another() for _ in range(3))]
    for client in clients:
        client.send(POST % 4_000 + b"x" * 4_000)
    assert [client.statuses for client in clients] == [[], [], [429], [429]]
    requests[0].respond(200)
    requests[1].respond(200)
    assert held.held_bytes == 0
    clients[3].send(POST % 4_000 + b"x" * 4_000)  # the refusal kept the connection
    assert len(requests) == 3


def test_a_body_that_is_taken_is_not_held(connect: Connect) -> None:
    requests: list[HttpRequest] = []
    client = connect(requests.append, early_start_bytes=10)
    held = bounded(client, 10_000)
    client.send(POST % 30_000)
    for _ in range(6):
        client.send(b"x" * 5_000)
        requests[0].take_body()
        assert held.held_bytes == 0
    requests[0].respond(200)
    assert client.statuses == [200]


def test_answers_that_are_not_read(connect: Connect) -> None:
    requests: list[HttpRequest] = []
    first = connect(requests.append)
    held = bounded(first, 100_000)
    clients = [first, *(first.another() for _ in range(3))]
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.transport.unsent = 80_000
        requests[-1].respond(200, b"x" * 80_000)
    assert [client.statuses for client in clients] == [[200], [200], [429], [429]]
    assert held.held_bytes == 160_000
    first.transport.unsent = 0
    first.at(1)
    assert held.held_bytes == 80_000
    clients[1].leave()
    assert held.held_bytes == 0


def test_a_client_that_reads_a_byte_now_and_then_is_cut(connect: Connect) -> None:
    requests: list[HttpRequest] = []
    client = connect(requests.append, write_timeout_s=30)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client.transport.unsent = 1 << 20
    requests[0].respond(200, bytes(1 << 20))
    for second in range(1, 40):
        client.transport.unsent -= 1
        client.at(second)
        if client.transport.aborted:
            break
    assert client.transport.aborted
    assert 30 < second < 35


def test_a_body_that_was_read_is_let_go_and_counts_on(connect: Connect) -> None:
    requests: list[HttpRequest] = []
    client = connect(requests.append)
    held = client.state.held
    client.send(POST % 5_000 + b"x" * 5_000)
    [request] = requests
    assert len(request.body_nowait()) == 5_000
    request.let_body_go()
    with pytest.raises(Bug):
        request.body_nowait()
    assert held.held_bytes == 5_000
    request.respond(200)
    assert held.held_bytes == 0
