"""What methods say of their answers, as clients get it; and what they leave in temporary folders."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import os
import signal
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from live_server import APPS, Server, environment


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    server = Server([f"{APPS}/contexts.py:Contexts", *ports], environment(folder))
    yield server.wait_ready()
    server.close()


def asked(server, path, value, headers=None):
    with server.connection() as connection:
        connection.request("POST", path, json.dumps(value), {"content-type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response, response.read()


def test_status_headers_and_what_can_be_read(contexts):
    value = {"status": 201, "headers": {"Location": "/things/1", "X-Name": "Jürgen"}}
    response, body = asked(contexts, "/make", value, {"cookie": 'a=1; b="2"'})
    assert response.status == 201
    assert response.headers["location"] == "/things/1"
    assert response.headers["x-name"] == "Jürgen"
    found = json.loads(body)
    assert (found["a"], found["b"]) == ("1", "2")
    assert found["client"].startswith("127.0.0.1:")


@pytest.mark.parametrize("http2", [False, True])
def test_over_both_versions_of_http(contexts, http2):
    pytest.importorskip("h2")
    with httpx.Client(base_url=f"http://127.0.0.1:{contexts.http}", http1=not http2, http2=http2) as client:
        answer = client.post("/make", json={"status": 303, "headers": {"location": "/x"}}, headers={"cookie": "c=3"})
        assert (answer.status_code, answer.headers["location"], answer.json()["c"]) == (303, "/x", "3")
        answer = client.post("/make", json={"status": 204, "headers": {}})
        assert (answer.status_code, answer.content) == (204, b"")
        assert client.post("/make", json={"status": 200, "headers": {}}).status_code == 200


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"status": 200, "headers": {"content-length": "5"}}, "the server writes the header 'content-length' itself"),
        ({"status": 200, "headers": {"x": "a\r\nset-cookie: b=c"}}, "must not have control characters or line ends"),
        ({"status": 200, "headers": {"a\r\nb": "c"}}, "must be a token"),
        ({"status": 500, "headers": {}}, "whole number from 200 to 499"),
        ({"status": 200, "headers": {"x": "v" * 20_000}}, "put it into the body"),
    ],
)
def test_what_cannot_be_said_is_an_error_of_the_method_and_nothing_else(contexts, value, words):
    response, body = asked(contexts, "/make", value)
    assert response.status == 500
    assert response.headers["set-cookie"] is None
    error = json.loads(body)["error"]
    assert error["code"] == "service_failed"
    assert words in error["message"]


def test_a_real_jar_keeps_and_returns_the_cookies(contexts):
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    def post(path, value):
        request = urllib.request.Request(
            f"http://127.0.0.1:{contexts.http}{path}", json.dumps(value).encode(), {"content-type": "application/json"}
        )
        with opener.open(request, timeout=20) as answer:
            return json.load(answer)

    post("/log_in", {"name": "ann"})
    assert {cookie.name for cookie in jar} == {"session", "theme"}
    assert {cookie.name for cookie in jar if cookie.has_nonstandard_attr("HttpOnly")} == {"session"}
    found = post("/make", {"status": 200, "headers": {}})
    assert (found["session"], found["theme"]) == ("ann", "dark")


def test_each_caller_of_a_batch_gets_its_own(contexts):
    words = [f"w{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda word: asked(contexts, "/each", {"words": word}), words))
    assert [response.headers["x-word"] for response, _ in answers] == words
    assert any(json.loads(body) != "1" for _, body in answers)  # some were together


@pytest.mark.parametrize(
    "head",
    [
        b"cookie: " + b"a=b; " * 20_000,
        b"\r\n".join(b"x-%d: y" % number for number in range(500)),
        b"cookie: a=\x01\x02",
        b"cookie: a=b\x00c",
        b"x\x01y: z",
        b"cookie a=b",
    ],
)
def test_heads_that_are_floods_or_have_control_bytes_are_refused_and_others_are_served(contexts, head):
    with socket.create_connection(("127.0.0.1", contexts.http), timeout=20) as raw:
        raw.sendall(b"POST /make HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n" + head + b"\r\n\r\n{}")
        answer = raw.recv(65536)
    assert int(answer.split(b" ", 2)[1]) in (400, 431)
    response, _ = asked(contexts, "/make", {"status": 200, "headers": {}})
    assert response.status == 200


def test_a_temporary_folder_goes_with_its_call_and_with_its_replica(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = serve(f"{APPS}/contexts.py:Contexts")

    def held():
        return list(tmp_path.rglob("held.txt"))

    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    connection.request("POST", "/hold", b"{}", {"content-type": "application/json"})
    server.wait_until(held)
    connection.close()  # the client goes
    server.wait_until(lambda: not held())

    body = {"until": str(tmp_path / "never")}
    holding = threading.Thread(target=lambda: server.post("/hold_in_thread", body))
    holding.start()
    server.wait_until(held)
    [pid] = server.replica_pids("Contexts")
    os.kill(pid, signal.SIGKILL)
    holding.join(20)
    server.wait_until(lambda: not held())
    assert server.terminate() == 0
    assert list(tmp_path.glob("trilith-*")) == []
