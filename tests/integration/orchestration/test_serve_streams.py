"""Streams through a real server: framing, failures, slow readers, clients that go, replicas that die."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import h2.connection
import h2.events
import httpx
import psutil
import pytest
from live_server import APPS

LINES = "application/jsonl"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def streams(serve_module):
    """One server for the tests that do no harm."""
    return serve_module(f"{APPS}/streaming.py:Streams")


def url(server, path):
    return f"http://127.0.0.1:{server.http}{path}"


def lines(server, path, value, **headers):
    """All items of a call as JSON lines."""
    answer = httpx.post(url(server, path), json=value, headers={"accept": LINES, **headers}, timeout=20)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def sends(server, path, chunks, content_type=LINES, **headers):
    return httpx.post(
        url(server, path),
        content=chunks,
        headers={"content-type": content_type, "accept": f"{LINES}, application/json", **headers},
        timeout=20,
    )


@pytest.mark.parametrize(
    ("accept", "kind", "text"),
    [
        ("*/*", "text/event-stream", 'data: "0"\n\ndata: "1"\n\n'),
        ("application/jsonl", "application/jsonl", '"0"\n"1"\n'),
        ("application/x-ndjson", "application/x-ndjson", '"0"\n"1"\n'),
        ("text/plain", "text/plain; charset=utf-8", "01"),
    ],
)
def test_the_client_chooses_the_form(streams, accept, kind, text):
    answer = httpx.post(url(streams, "/count"), json={"n": 2}, headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"], answer.text) == (200, kind, text)


def test_bytes_come_as_they_are_and_what_is_not_offered_is_refused(streams):
    assert httpx.post(url(streams, "/chunks"), json={"n": 3, "size": 2}).content == b"\x00\x00\x01\x01\x02\x02"
    answer = httpx.post(url(streams, "/count"), json={"n": 2}, headers={"accept": "image/png"})
    assert answer.status_code == 406
    assert "text/event-stream" in answer.json()["error"]["message"]
    answer = sends(streams, "/total", [b"1"], content_type="application/json")
    assert answer.status_code == 415
    assert LINES in answer.json()["error"]["message"]


def test_large_arguments_are_read_before_the_stream_begins(streams):
    body = b" " * 3_000_000 + b'{"n": 2}'
    answer = httpx.post(url(streams, "/count"), content=body, headers={**JSON, "accept": LINES}, timeout=20)
    assert answer.text == '"0"\n"1"\n'


def test_an_error_before_the_first_item_has_its_own_status(streams):
    answer = httpx.post(url(streams, "/fails"), json={"after": 0})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    answer = httpx.post(url(streams, "/fails"), json={"before": 0})
    assert answer.status_code == 400


def test_an_error_midway_is_told_in_the_form_of_the_stream(streams):
    answer = httpx.post(url(streams, "/fails"), json={"after": 1})
    assert answer.text.startswith(
        'data: "0"\n\nevent: error\ndata: {"error":{"code":"invalid_input","message":"it broke"'
    )
    assert answer.text.endswith("}}\n\n")
    found = lines(streams, "/fails", {"after": 2})
    assert found[:2] == ["0", "1"]
    assert found[2]["error"]["code"] == "invalid_input"
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(url(streams, "/fails"), json={"after": 2}, headers={"accept": "text/plain"})


@pytest.mark.parametrize("path", ["/silent", "/blocked"])
def test_the_time_between_items_is_limited(streams, path):
    found = lines(streams, path, {})
    assert found[0] == 1
    assert found[1]["error"]["code"] == "deadline_exceeded"
    assert "no item for 0.3 s" in found[1]["error"]["message"]


def test_the_callers_limit_is_one_of_the_whole(streams):
    found = lines(streams, "/slow", {"wait_s": 60}, **{"trilith-timeout-ms": "300"})
    assert found[0] == 1
    assert found[1]["error"]["code"] == "deadline_exceeded"


def test_items_go_in_as_they_come(streams):
    assert sends(streams, "/total", [b"1\n2", b"2\n3"]).text == "26"
    assert sends(streams, "/sizes", [b"abc", b"de"], content_type="application/octet-stream").text == "5"
    assert sends(streams, "/doubled?by=10", [b"1\n2\n"]).text == "10\n20\n"
    answer = sends(streams, "/total", [b'1\n"x"\n'])
    assert (answer.status_code, "item 2" in answer.text) == (400, True)


def test_the_answer_begins_before_the_request_has_ended(streams):
    with contextlib.closing(socket.create_connection(("127.0.0.1", streams.http), 20)) as client:
        client.sendall(
            b"POST /doubled HTTP/1.1\r\nhost: x\r\ncontent-type: application/jsonl\r\naccept: application/jsonl\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        seen = b""
        for number in range(5):
            client.sendall(b"2\r\n%d\n\r\n" % number)
            while not seen.endswith(b"%d\n\r\n" % (2 * number)):
                piece = client.recv(4096)
                assert piece, seen
                seen += piece
        client.sendall(b"0\r\n\r\n")
        while not seen.endswith(b"0\r\n\r\n"):
            seen += client.recv(4096)
    assert b"200 OK" in seen


def test_streams_between_services(streams):
    assert lines(streams, "/relayed", {"n": 300}) == list(range(300))
    assert lines(streams, "/relayed_plainly", {"n": 5}) == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert streams.post("/totalled", {"n": 5})[1] == 11
    closings = streams.post("/closings")[1]
    assert lines(streams, "/relayed", {"n": 10**9, "stop": 3}) == [0, 1, 2]
    streams.wait_until(lambda: streams.post("/closings")[1][2] == closings[2] + 1)


def test_deadlines_and_errors_travel_between_services(streams):
    closings = streams.post("/closings")[1]
    found = lines(streams, "/relayed", {"n": 10**9}, **{"trilith-timeout-ms": "300"})
    assert found[-1]["error"]["code"] == "deadline_exceeded"
    streams.wait_until(lambda: streams.post("/closings")[1][2] == closings[2] + 1)
    found = lines(streams, "/relayed_failure", {"after": 2})
    assert found[:2] == [0, 1]
    assert found[2]["error"]["code"] == "service_failed"


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("path", ["/count", "/plain"])
def test_a_client_that_goes_ends_the_generator(streams, path, after):
    closings = streams.post("/closings")[1]
    connection = http.client.HTTPConnection("127.0.0.1", streams.http, timeout=20)
    connection.request("POST", path, json.dumps({"n": 10**9}), {**JSON, "accept": LINES})
    if after:
        response = connection.getresponse()
        for _ in range(after):
            assert response.readline()
        response.close()
    connection.close()
    if after:  # else it may never have begun
        streams.wait_until(lambda: streams.post("/closings")[1][1] > closings[1])
    streams.wait_until(lambda: b'trilith_service_in_flight{service="Streams"} 0' in streams.get("/metrics")[1])


@pytest.mark.parametrize("sent", [b"", b"4\r\n", b"4\r\n1\n2\n\r\n", b"4\r\n1\n2\n\r\n2\r\n3"])
@pytest.mark.parametrize("path", ["/doubled", "/total", "/sizes"])
def test_a_client_that_goes_while_it_sends_ends_the_call(streams, path, sent):
    kind = b"application/octet-stream" if path == "/sizes" else b"application/jsonl"
    with contextlib.closing(socket.create_connection(("127.0.0.1", streams.http), 20)) as client:
        client.sendall(
            b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n%b"
            % (path.encode(), kind, sent)
        )
        if path == "/doubled" and len(sent) > 5:
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        else:
            streams.wait_until(lambda: b'trilith_service_streams{service="Streams"} 1' in streams.get("/metrics")[1])
    streams.wait_until(lambda: b'trilith_service_in_flight{service="Streams"} 0' in streams.get("/metrics")[1])


def test_a_method_that_does_not_ask_holds_its_client(streams):
    with contextlib.closing(socket.create_connection(("127.0.0.1", streams.http), 20)) as client:
        client.sendall(
            b"POST /first_of?wait_s=3600 HTTP/1.1\r\nhost: x\r\ncontent-type: application/octet-stream\r\n"
            b"transfer-encoding: chunked\r\naccept: application/jsonl\r\n\r\n3\r\nabc\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        client.settimeout(1.0)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                sent += client.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        assert sent < 64 << 20


def test_what_is_sent_after_the_answer_is_dropped(streams):
    answer = sends(streams, "/doubled?by=x", (b"%d\n" % number for number in range(10)))
    assert answer.status_code == 400
    big = (b"%d\n" % number * 1000 for number in range(200))
    assert sends(streams, "/total", (b"oops\n", *big)).status_code == 400
    assert lines(streams, "/plain", {"n": 1}) == [0]


def test_a_client_that_does_not_read_holds_its_generator_alone(streams):
    made, closed, _ = streams.post("/closings")[1]
    with contextlib.closing(socket.create_connection(("127.0.0.1", streams.http), 20)) as client:
        body = json.dumps({"n": 10**9, "size": 10_000}).encode()
        client.sendall(b"POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n" % len(body))
        client.sendall(b"content-type: application/json\r\n\r\n" + body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        counts = [made]

        def stands_still():
            counts.append(streams.post("/closings")[1][0])
            return len(counts) > 5 and counts[-1] == counts[-5]

        streams.wait_until(stands_still)
        assert counts[-1] - made < 3000
        assert len(lines(streams, "/count", {"n": 500})) == 500
    streams.wait_until(lambda: streams.post("/closings")[1][1] == closed + 2)  # it went: of that too
    assert lines(streams, "/plain", {"n": 3}) == [0, 1, 2]


def memory_bytes(*pids):
    return [psutil.Process(pid).memory_info().rss for pid in pids]


def test_memory_holds_with_many_streams_of_which_some_stand_still(serve):
    """What `benchmarks/streams.py` does at full size."""
    server = serve(f"{APPS}/streaming.py:Streams")
    pids = (server.gateway_pid(), *server.replica_pids("Streams"))
    lines(server, "/count", {"n": 100, "size": 1000})
    before = memory_bytes(*pids)
    with contextlib.ExitStack() as held:
        for _ in range(3):
            client = held.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", server.http), 20)))
            body = json.dumps({"n": 10**9, "size": 10_000}).encode()
            client.sendall(b"POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n" % len(body))
            client.sendall(b"content-type: application/json\r\n\r\n" + body)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        with ThreadPoolExecutor(29) as readers:
            found = readers.map(lambda _: len(lines(server, "/count", {"n": 300, "size": 1000})), range(29))
            assert list(found) == [300] * 29
        growth = [now - then for now, then in zip(memory_bytes(*pids), before, strict=True)]
    assert max(growth) < 48 << 20, growth


def test_a_replica_that_dies_midway_is_an_error_of_the_stream(serve):
    server = serve(f"{APPS}/streaming.py:Streams")
    for accept in ("text/event-stream", LINES):
        with (
            httpx.stream(
                "POST", url(server, "/dies"), json={"after": 3}, headers={"accept": accept}, timeout=20
            ) as answer,
        ):
            found = []
            for line in answer.iter_lines():
                found.append(line)
                value = line.removeprefix("data: ")
                if value.isdigit() and int(value) > 10:
                    os.kill(int(value), signal.SIGKILL)
        assert "replica_lost" in "".join(found)
        assert "ended after 4 items" in "".join(found)
        server.wait_until(lambda: server.get("/readyz")[0] == 200)


@pytest.mark.parametrize(("path", "status"), [("/again", 200), ("/never_again", 502)])
def test_a_stream_is_begun_again_before_its_first_item_where_that_is_allowed(serve, tmp_path, path, status):
    server = serve(f"{APPS}/streaming.py:Streams")
    answer = httpx.post(
        url(server, path), json={"marker": str(tmp_path / "died")}, headers={"accept": LINES}, timeout=20
    )
    assert answer.status_code == status
    assert answer.text == "1\n" if status == 200 else "replica_lost" in answer.text


def test_a_stream_that_outlasts_the_drain_ends_with_why(serve):
    server = serve(f"{APPS}/streaming.py:Streams", "--drain-timeout-s", "0.5")
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)) as connection:
        connection.request("POST", "/slow", json.dumps({"wait_s": 60}), {**JSON, "accept": LINES})
        response = connection.getresponse()
        assert response.readline() == b"1\n"
        server.process.send_signal(signal.SIGTERM)
        assert json.loads(response.read())["error"]["code"] == "draining"
        response.close()
    assert server.process.wait(20) == 0


def test_a_gateway_that_dies_midway_closes_the_generators(serve):
    server = serve(f"{APPS}/streaming.py:Streams")
    for path, value in (("/count", {"n": 10**9}), ("/relayed", {"n": 10**9})):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)) as connection:
            connection.request("POST", path, json.dumps(value), {**JSON, "accept": LINES})
            response = connection.getresponse()
            assert response.readline()
            os.kill(server.gateway_pid(), signal.SIGKILL)
            with pytest.raises(http.client.IncompleteRead):
                response.read()
            response.close()
        server.wait_line("starting another")
        server.wait_until(lambda: _answers(server))
    server.wait_until(lambda: server.post("/closings")[1][1:] == [1, 1])


def _answers(server):
    try:
        return server.post("/closings")[0] == 200
    except OSError:
        return False


def test_silence_is_filled_and_the_timeline_is_kept(serve):
    server = serve(f"{APPS}/streaming.py:Streams", "--stream-keep-alive-s", "0.1")
    with httpx.stream(
        "POST", url(server, "/slow"), json={"wait_s": 0.7}, headers={"trilith-timeline": "1"}, timeout=20
    ) as answer:
        text = "".join(answer.iter_text())
    assert text.count(":\n\n") >= 2
    assert text.replace(":\n\n", "") == "data: 1\n\ndata: 2\n\n"
    gateway = httpx.get(url(server, answer.headers["trilith-timeline-at"])).json()
    stages = [stage for stage, _ in gateway[2]]
    assert stages.index("first_item") < stages.index("last_item") < stages.index("answered")
    assert "first_item" in [stage for stage, _ in gateway[3][0][2]]
    metrics = server.get("/metrics")[1].decode()
    assert 'trilith_service_stream_items_total{direction="out",method="slow",service="Streams"} 2' in metrics
    assert 'trilith_service_call_seconds_count{method="slow",phase="first_item",service="Streams"} 1' in metrics


def test_draining_waits_for_streams(serve):
    server = serve(f"{APPS}/streaming.py:Streams")
    with httpx.stream("POST", url(server, "/slow"), json={"wait_s": 1.0}, headers={"accept": LINES}) as answer:
        found = answer.iter_lines()
        assert next(found) == "1"
        server.process.send_signal(signal.SIGTERM)
        assert next(found) == "2"
    assert server.process.wait(20) == 0


def test_http2_clients_that_do_not_read_or_go(streams):
    made, closed, _ = streams.post("/closings")[1]
    counts = [made]

    def stands_still():
        counts.append(streams.post("/closings")[1][0])
        return len(counts) > 5 and counts[-1] == counts[-5]

    with (
        httpx.Client(http1=False, http2=True, timeout=20) as client,
        client.stream("POST", url(streams, "/count"), json={"n": 10**9, "size": 10_000}) as answer,
    ):
        assert next(answer.iter_raw(10))
        streams.wait_until(stands_still)
        assert counts[-1] - made < 5000
    streams.wait_until(lambda: streams.post("/closings")[1][1] == closed + 1)


def test_http2_streams_both_ways(streams):
    httpx_h2 = pytest.importorskip("h2")
    assert httpx_h2
    with httpx.Client(http1=False, http2=True, timeout=20) as client:
        answer = client.post(url(streams, "/doubled"), content=[b"1\n", b"2\n"], headers={"content-type": LINES})
        assert answer.http_version == "HTTP/2"
        assert answer.text == "data: 2\n\ndata: 4\n\n"
        answer = client.post(url(streams, "/count"), json={"n": 1000, "size": 1000}, headers={"accept": "text/plain"})
        assert len(answer.text) == 1000 * 1000 + 10 + 90 * 2 + 900 * 3


def test_over_http2_a_client_that_resets_one_stream_closes_its_generator_alone(streams):
    closed = streams.post("/closings")[1][1]
    client = h2.connection.H2Connection()
    client.initiate_connection()
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), ("content-type", "application/json")]
    for stream in (1, 3):
        client.send_headers(stream, [*head[:1], (":path", "/count"), *head[1:]])
        client.send_data(stream, b'{"n": 1000000000}', end_stream=True)
    with socket.create_connection(("127.0.0.1", streams.http), timeout=20) as raw:
        seen: set[int] = set()

        def read():
            for event in client.receive_data(raw.recv(65536)):
                if isinstance(event, h2.events.DataReceived):
                    seen.add(event.stream_id)
                    client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            raw.sendall(client.data_to_send())

        raw.sendall(client.data_to_send())
        while seen != {1, 3}:
            read()
        client.reset_stream(1, error_code=8)
        raw.sendall(client.data_to_send())
        streams.wait_until(lambda: streams.post("/closings")[1][1] == closed + 1)
        seen.clear()
        while 3 not in seen:
            read()
        assert streams.post("/closings")[1][1] == closed + 1
    streams.wait_until(lambda: streams.post("/closings")[1][1] == closed + 2)
