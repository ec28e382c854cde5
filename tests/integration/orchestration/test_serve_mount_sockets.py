"""Websockets of mounted applications: handshakes, messages, closes, clients that go, replicas that die."""

from __future__ import annotations

import json
import os
import signal

import httpx
import pytest
from live_server import APPS
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


@pytest.fixture(scope="module")
def mounts(serve_module):
    """One server for the tests that do no harm."""
    return serve_module(f"{APPS}/mounts.py:Mounts")


def at(server, path, **options):
    return connect(f"ws://127.0.0.1:{server.http}{path}", **options)


def seen(server):
    return httpx.get(f"http://127.0.0.1:{server.http}/app/seen").json()


def test_messages_go_both_ways_as_they_are(mounts):
    with at(mounts, "/app/ws", subprotocols=["chat", "other"], max_size=None) as socket:
        assert socket.subprotocol == "chat"
        assert socket.response.headers["x-odd"] == "1"
        for message in ("text", "\u00e9\U0001f600", "", b"\x00\xff", b"", "x" * 300_000, b"y" * 3_000_000):
            socket.send(message)
            assert socket.recv(20) == message
        socket.send("close")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "as you say")


def test_what_the_application_sees(mounts):
    with at(mounts, "/app/ws/scope", additional_headers={"x-request-id": "r-7"}) as socket:
        assert json.loads(socket.recv(20)) == ["ws", "/app/ws/scope", "/app", "1.1", "r-7"]
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
    assert closed.value.rcvd.code == 1000


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("closes-first", 403, ""),
        ("refuses", 402, "not yet"),
        ("raises-first", 500, "service_failed"),
        ("returns", 500, "service_failed"),
    ],
)
def test_a_handshake_can_be_refused(mounts, path, status, text):
    with pytest.raises(InvalidStatus) as refused, at(mounts, f"/app/ws/{path}"):
        pass
    assert refused.value.response.status_code == status
    assert text in refused.value.response.body.decode()


def test_a_failure_midway_closes_with_1011(mounts):
    with at(mounts, "/app/ws") as socket:
        socket.send("raise")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
    assert closed.value.rcvd.code == 1011
    assert "in the middle" not in closed.value.rcvd.reason
    mounts.wait_line("ValueError: in the middle")


def test_the_clients_close_is_told(mounts):
    before = seen(mounts)["disconnects"]
    with at(mounts, "/app/ws") as socket:
        socket.send("a")
        socket.recv(20)
        socket.close(4321, "bye")
    mounts.wait_until(lambda: seen(mounts)["disconnects"] == before + 1)
    assert seen(mounts)["code"] == 4321


def test_a_client_that_is_cut_off_is_told_of(mounts):
    before = seen(mounts)
    with at(mounts, "/app/ws") as socket:
        socket.send("a")
        socket.recv(20)
        socket.socket.close()
    mounts.wait_until(lambda: seen(mounts)["disconnects"] == before["disconnects"] + 1)
    with at(mounts, "/app/ws/deaf") as socket:
        socket.socket.close()
    mounts.wait_until(lambda: seen(mounts)["cancelled"] == before["cancelled"] + 1)


def test_a_slow_reader_holds_its_own_application(mounts):
    with at(mounts, "/app/ws/floods", max_queue=1) as socket:
        socket.recv(20)
        found = seen(mounts)["sent"]

        def stands_still():
            nonlocal found
            before, found = found, seen(mounts)["sent"]
            return found == before

        mounts.wait_until(stands_still)
        failed = seen(mounts)["failed_sends"]
        socket.socket.close()
    mounts.wait_until(lambda: seen(mounts)["failed_sends"] == failed + 1)


def test_who_only_sends_learns_of_the_clients_close(mounts):
    failed = seen(mounts)["failed_sends"]
    with at(mounts, "/app/ws/floods", max_queue=None) as socket:
        socket.recv(20)
    mounts.wait_until(lambda: seen(mounts)["failed_sends"] == failed + 1)


def test_a_page_of_another_origin_is_refused(mounts):
    with pytest.raises(InvalidStatus) as refused, at(mounts, "/app/ws", origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403


def test_a_replica_that_dies_and_a_server_that_stops_close(serve):
    server = serve(f"{APPS}/mounts.py:Mounts")
    [pid] = server.replica_pids("Mounts")
    with at(server, "/app/ws") as socket:
        socket.send("a")
        socket.recv(20)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
    assert closed.value.rcvd.code == 1011
    server.wait_until(lambda: server.replica_pids("Mounts") not in ([], [pid]))
    with at(server, "/app/ws") as socket:
        socket.send("a")
        socket.recv(20)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
    assert closed.value.rcvd.code == 1001
    assert server.process.wait(20) == 0
