"""Applications mounted on a service, through a real server: heads, bodies, streams, failures, clients that go."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess

import h2.connection
import h2.events
import httpx
import psutil
import pytest
from live_server import APPS
from test_serve_tls import _certificate


@pytest.fixture(scope="module")
def mounts(serve_module):
    """One server for the tests that do no harm."""
    return serve_module(f"{APPS}/mounts.py:Mounts")


def url(server, path):
    return f"http://127.0.0.1:{server.http}{path}"


def seen(server):
    return httpx.get(url(server, "/app/seen")).json()


def raw(server, octets, *, until=b"\r\n\r\n"):
    """A connection that has sent that, and what came back until then."""
    client = socket.create_connection(("127.0.0.1", server.http), 20)
    client.sendall(octets)
    found = b""
    while until not in found:
        piece = client.recv(65536)
        if not piece:
            break
        found += piece
    return client, found


def test_what_an_application_sees_of_a_request(mounts):
    answer = httpx.request(
        "PATCH",
        url(mounts, "/app/%C3%A9%20b/c?q=%20x"),
        content=b"12345",
        headers=[("X-Odd", "caf\u00e9".encode("latin-1")), ("x-request-id", "r-1"), ("x-forwarded-for", "6.6.6.6")],
    )
    told = answer.json()
    assert (told["method"], told["path"], told["raw_path"]) == ("PATCH", "/app/\u00e9 b/c", "/app/%C3%A9%20b/c")
    assert (told["root_path"], told["query_string"], told["scheme"]) == ("/app", "q=%20x", "http")
    assert (told["http_version"], told["type"], told["body"]) == ("1.1", "http", 5)
    assert (told["client"][0], told["server"]) == ("127.0.0.1", ["127.0.0.1", mounts.http])
    assert ["x-odd", "caf\u00e9"] in told["headers"]
    assert ["host", f"127.0.0.1:{mounts.http}"] in told["headers"]
    assert told["context"] == ["r-1", ":".join(map(str, told["client"])), "caf\u00e9"]
    assert answer.headers["x-request-id"] == "r-1"
    assert answer.headers["server"] == "trilith"
    assert answer.headers["content-length"] == str(len(answer.content))


def test_the_longest_mount_has_a_path_and_methods_have_theirs(mounts):
    assert mounts.post("/add", {"a": 1, "b": 2}) == (200, 3)
    assert mounts.post("/app/method") == (200, "method")
    assert httpx.get(url(mounts, "/add")).status_code == 405
    assert httpx.get(url(mounts, "/other/x")).text == "rest mounts /other/x ''"
    assert httpx.get(url(mounts, "/")).text == "rest mounts / ''"
    assert httpx.get(url(mounts, "/application")).text == "rest mounts /application ''"
    assert httpx.get(url(mounts, "/app")).json()["path"] == "/app"
    assert httpx.get(url(mounts, "/app/")).json()["path"] == "/app/"
    assert httpx.get(url(mounts, "/livez")).json() == {"live": True}
    assert httpx.get(url(mounts, "/docs")).status_code == 200
    assert httpx.get(url(mounts, "/v2")).json()["name"] == "trilith"


def test_an_application_begins_and_ends_with_its_replica(serve):
    server = serve(f"{APPS}/mounts.py:Mounts")
    assert httpx.get(url(server, "/living")).json() == ["with mounts", "mounts"]
    assert server.terminate() == 0
    server.wait_line("the lifespan has ended")


def test_a_replica_whose_application_broke_after_its_start_is_replaced(serve):
    server = serve(f"{APPS}/lifespans.py:Lifespans")
    [first] = server.replica_pids("Lifespans")
    assert httpx.get(url(server, "/ui/break")).text == "failing"
    server.wait_line("Lifespans: the mount at /ui does not work any more: its lifespan raised")
    server.wait_line("Lifespans takes no calls any more")
    server.wait_line(f"killing a replica of Lifespans (pid {first})")
    server.wait_until(lambda: [pid for pid in server.replica_pids("Lifespans") if pid != first])
    assert server.post("/one") == (200, 1)


def test_what_is_no_http_is_refused_in_the_form_of_services(mounts):
    for octets in (b"GET / HTTP/3.0\r\n\r\n", b"\x16\x03\x01 no http\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n"):
        client, found = raw(mounts, octets, until=b"}")
        client.close()
        told = json.loads(found.partition(b"\r\n\r\n")[2])
        assert told["error"].keys() == {"code", "message", "request_id"}


def test_large_bodies_go_in_and_out_in_pieces(mounts):
    size = 20_000_000
    answer = httpx.post(url(mounts, "/app/count"), content=bytes(size), timeout=30)
    pieces, total = map(int, answer.text.split())
    assert total == size
    assert pieces > 10
    chunked = httpx.post(url(mounts, "/app/count"), content=iter([b"ab", b"c" * 100_000]), timeout=30)
    assert chunked.text.split()[1] == "100002"
    out = httpx.get(url(mounts, f"/app/sized?{size}"), timeout=30)
    assert out.headers["content-length"] == str(size)
    assert "transfer-encoding" not in out.headers
    assert out.content == b"y" * size


def test_head_says_how_long_the_body_would_be(mounts):
    answer = httpx.head(url(mounts, "/app/sized?70000"))
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "70000", b"")
    answer = httpx.head(url(mounts, "/app/echo"))
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("status", [204, 304, 205, 404, 418, 599])
def test_any_status_comes_as_it_is(mounts, status):
    with httpx.Client() as client:
        for _ in range(2):  # the connection is usable after it
            answer = client.get(url(mounts, f"/app/status?{status}"))
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (status, b"", '"1"')


def test_what_is_sent_comes_when_it_is_sent(mounts):
    with httpx.stream("GET", url(mounts, "/app/events"), timeout=20) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        pieces = answer.iter_raw()
        assert next(pieces) == b"data: 1\n\n"
        httpx.get(url(mounts, "/app/release"))
        assert b"".join(pieces) == b"data: 2\n\n"
    with httpx.stream("GET", url(mounts, "/app/head-first"), timeout=20) as answer:
        assert answer.status_code == 202
        httpx.get(url(mounts, "/app/release"))
        assert answer.read() == b"late"


def test_a_failure_before_the_answer_is_500_and_its_frames_are_in_the_log(mounts):
    answer = httpx.get(url(mounts, "/app/raises"), headers={"x-request-id": "fails-1"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (500, "service_failed")
    assert "secret" not in error["message"]
    mounts.wait_line("Mounts: the mount at /app raised ValueError")
    mounts.wait_line("secret of the app")
    assert "in raises" in mounts.output
    answer = httpx.get(url(mounts, "/app/silent"))
    assert answer.status_code == 500
    mounts.wait_line("returned before it had answered")


def test_a_failure_midway_cuts_the_answer(mounts):
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(url(mounts, "/app/raises-midway"))
    mounts.wait_line("broke midway")
    assert httpx.get(url(mounts, "/app/echo")).status_code == 200


@pytest.mark.parametrize("how", ["body-first", "twice", "status", "header", "long", "short", "unknown"])
def test_an_application_that_breaks_the_protocol_is_told(mounts, how):
    answer = httpx.get(url(mounts, f"/app/breaks?{how}"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "service_failed")


def test_an_application_that_goes_on_after_its_answer_fails_by_itself(mounts):
    assert httpx.get(url(mounts, "/app/breaks?after")).text == "whole"
    mounts.wait_line("a piece of an answer was sent after it")


def test_no_answer_in_time_is_504(mounts):
    before = seen(mounts)["cancelled"]
    answer = httpx.get(url(mounts, "/app/short"), timeout=20)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert "0.3 s" in answer.json()["error"]["message"]
    mounts.wait_until(lambda: seen(mounts)["cancelled"] == before + 1)
    answer = httpx.get(url(mounts, "/app/deaf"), headers={"trilith-timeout-ms": "200"}, timeout=20)
    assert answer.status_code == 504
    mounts.wait_until(lambda: seen(mounts)["cancelled"] == before + 2)


def test_a_client_that_goes_is_told_of_and_who_does_not_listen_is_cancelled(mounts):
    before = seen(mounts)
    for path in ("listens", "deaf"):
        begun = seen(mounts)["begun"]
        client, _ = raw(mounts, b"GET /app/%b HTTP/1.1\r\nhost: x\r\n\r\n" % path.encode(), until=b"")
        mounts.wait_until(lambda begun=begun: seen(mounts)["begun"] > begun)
        client.close()
    mounts.wait_until(lambda: seen(mounts)["disconnects"] == before["disconnects"] + 1)
    mounts.wait_until(lambda: seen(mounts)["cancelled"] == before["cancelled"] + 1)


def test_a_body_that_breaks_off_is_no_whole_body(mounts):
    before = seen(mounts)["disconnects"]
    client, _ = raw(
        mounts, b"POST /app/count HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n" + bytes(1_000_000), until=b""
    )
    mounts.wait_until(lambda: seen(mounts)["received"] > 900_000)
    client.close()
    mounts.wait_until(lambda: seen(mounts)["disconnects"] == before + 1)


def test_a_body_is_asked_for_when_it_is_wanted(mounts):
    head = b" HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n"
    client, found = raw(mounts, b"POST /app/count" + head)
    assert found.startswith(b"HTTP/1.1 100")
    client.sendall(b"12345")
    assert b" 200 " in client.recv(65536)
    client.close()
    client, found = raw(mounts, b"POST /app/status?403" + head)
    assert found.startswith(b"HTTP/1.1 403")
    client.close()


def test_a_slow_reader_holds_its_own_application(mounts):
    client, _ = raw(mounts, b"GET /app/slow HTTP/1.1\r\nhost: x\r\n\r\n")
    with contextlib.closing(client):
        found = seen(mounts)["sent"]

        def stands_still():
            nonlocal found
            before, found = found, seen(mounts)["sent"]
            return found == before

        mounts.wait_until(stands_still)
        assert found < 400, "more was made than windows and socket buffers hold"
        assert mounts.post("/add", {"a": 1, "b": 1}) == (200, 2)
    failed = seen(mounts)["failed_sends"]
    mounts.wait_until(lambda: seen(mounts)["failed_sends"] > failed or seen(mounts)["failed_sends"] > 0)


def test_what_goes_on_after_an_answer_keeps_no_client_waiting(mounts):
    before = seen(mounts)["after"]
    assert httpx.get(url(mounts, "/app/background")).text == "answered"
    assert seen(mounts)["after"] == before
    httpx.get(url(mounts, "/app/release"))
    mounts.wait_until(lambda: seen(mounts)["after"] == before + 1)


def test_a_body_over_the_limit_is_refused(serve):
    server = serve(f"{APPS}/mounts.py:Mounts", "--max-body-mb", "1")
    assert httpx.post(url(server, "/app/count"), content=bytes(2_000_000)).status_code == 413
    answer = httpx.post(url(server, "/app/count"), content=iter([bytes(100_000)] * 20))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")


def test_a_replica_that_dies_is_told_before_and_midway(serve):
    server = serve(f"{APPS}/mounts.py:Mounts")
    [pid] = server.replica_pids("Mounts")
    client, _ = raw(server, b"GET /app/slow HTTP/1.1\r\nhost: x\r\n\r\n")
    waiting, _ = raw(server, b"GET /app/deaf HTTP/1.1\r\nhost: x\r\n\r\n", until=b"")
    server.wait_until(lambda: len(psutil.Process(pid).threads()) > 0 and seen(server)["sent"] > 0)
    os.kill(pid, signal.SIGKILL)
    found = b""
    while b"\r\n\r\n" not in found:
        found += waiting.recv(65536)
    assert b" 502 " in found or b" 503 " in found
    while client.recv(1 << 20):
        pass
    client.close()
    waiting.close()
    server.wait_until(lambda: server.replica_pids("Mounts") not in ([], [pid]))
    server.wait_until(lambda: httpx.get(url(server, "/app/echo")).status_code == 200)


def test_a_stop_lets_an_answer_end(serve):
    server = serve(f"{APPS}/mounts.py:Mounts")
    with httpx.stream("GET", url(server, "/app/ticks"), timeout=20) as answer:
        pieces = answer.iter_raw()
        found = next(pieces)
        server.process.send_signal(signal.SIGTERM)
        found += b"".join(pieces)
    assert found == b"".join(b"%d\n" % number for number in range(20)) + b"end"
    assert server.process.wait(20) == 0


def test_metrics_and_the_access_log_name_mounts(serve):
    server = serve(f"{APPS}/mounts.py:Mounts", "--access-log")
    assert httpx.get(url(server, "/app/echo"), headers={"x-request-id": "log-1"}).status_code == 200
    assert httpx.get(url(server, "/app/ticks"), headers={"x-request-id": "log-2"}, timeout=20).status_code == 200
    assert 'method="/app"' in httpx.get(url(server, "/metrics")).text
    server.wait_line("log-1: GET /app/echo 200")
    server.wait_line("log-2: GET /app/ticks 200")


def test_over_http2(mounts):
    found = subprocess.run(
        ["curl", "-sS", "--http2-prior-knowledge", "-d", "abc", "-H", "cookie: a=1", url(mounts, "/app/echo")],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert '"http_version": "2"' in found.stdout
    assert '"body": 3' in found.stdout


def test_bodies_over_http2(mounts):
    with httpx.Client(base_url=f"http://127.0.0.1:{mounts.http}", http1=False, http2=True, timeout=20) as client:
        assert client.post("/app/count", content=bytes(3_000_000)).text.endswith(" 3000000")
        assert client.post("/app/count", content=iter([bytes(100_000)] * 10)).text.endswith(" 1000000")
        answer = client.get("/app/sized?3000000")
        assert (answer.headers["content-length"], len(answer.content)) == ("3000000", 3_000_000)
        assert client.head("/app/sized?70000").headers["content-length"] == "70000"
        assert [client.get(f"/app/status?{status}").status_code for status in (204, 304, 404)] == [204, 304, 404]
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/app/raises-midway")
        with client.stream("GET", "/app/events") as answer:
            pieces = answer.iter_raw()
            assert next(pieces) == b"data: 1\n\n"
            assert client.get("/app/release").status_code == 200  # on the same connection
            assert b"".join(pieces) == b"data: 2\n\n"


def test_a_stream_of_http2_that_is_reset(mounts):
    before = seen(mounts)["failed_sends"]
    connection = h2.connection.H2Connection()
    with contextlib.closing(socket.create_connection(("127.0.0.1", mounts.http), 20)) as client:
        connection.initiate_connection()
        head = [(":method", "GET"), (":path", "/app/slow"), (":scheme", "http"), (":authority", "x")]
        connection.send_headers(1, head, end_stream=True)
        client.sendall(connection.data_to_send())
        events = []
        while not any(isinstance(event, h2.events.DataReceived) for event in events):
            events = connection.receive_data(client.recv(65536))
        connection.reset_stream(1)
        client.sendall(connection.data_to_send())
        mounts.wait_until(lambda: seen(mounts)["failed_sends"] == before + 1)


def test_over_http10(mounts):
    client, found = raw(mounts, b"GET /app/sized?5 HTTP/1.0\r\n\r\n", until=b"yyyyy")
    assert b"content-length: 5" in found
    client.close()
    client, found = raw(mounts, b"GET /app/breaks?after HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", until=b"whole")
    assert b"content-length: 5" in found
    client.close()


def test_over_tls(serve, tmp_path):
    pem, key = _certificate(tmp_path)
    server = serve(
        f"{APPS}/mounts.py:Mounts", "--tls-certificate", str(pem), "--tls-key", str(key), ready=False
    ).wait_ready(scheme="https")
    told = httpx.get(f"https://localhost:{server.http}/app/echo", verify=ssl.create_default_context(cafile=pem)).json()
    assert (told["scheme"], told["server"][1]) == ("https", server.http)


@pytest.mark.parametrize("options", [["--replicas", "2"], ["--inline"]], ids=["two", "inline"])
def test_with_two_replicas_and_inline(serve, options):
    server = serve(f"{APPS}/mounts.py:Mounts", *options)
    assert {httpx.get(url(server, "/app/echo")).status_code for _ in range(8)} == {200}
    assert httpx.get(url(server, "/living")).json() == ["with mounts", "mounts"]
