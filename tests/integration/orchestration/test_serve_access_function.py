"""A function of the user's that says who a caller is: asked before everything else, and never in the way of it."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import pytest
from live_server import APPS, Server, environment

from trilith.orchestration import new_key

TARGET = f"{APPS}/access.py:Words"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    keys = tmp_path_factory.mktemp("keys") / "keys.yaml"
    key, entry = new_key("machine", scopes=["*"])
    keys.write_text(f"public: [/openapi.json]\nkeys:\n{entry}")
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    served = Server(
        [TARGET, *ports, "--access", f"{APPS}/access.py:check", "--api-keys", str(keys)], environment(folder)
    )
    served.key = key
    yield served.wait_ready()
    served.close()


def ask(server, path, word=None, value=None, timeout=20.0):
    headers = {} if word is None else {"authorization": f"Secret {word}"}
    answer = httpx.post(f"http://127.0.0.1:{server.http}{path}", json=value or {}, headers=headers, timeout=timeout)
    return answer.status_code, answer.json()


def test_who_is_known_passes_and_the_service_is_told(server):
    status, found = ask(server, "/who", "ann")
    assert status == 200
    assert (found["name"], found["kind"], found["path"], found["asks"]) == ("ann", "access", "/who", "Words.who")
    assert found["pid"] not in map(str, server.replica_pids("Words"))
    assert ask(server, "/count", "ann", {"text": "a b c"}) == (200, 3)


def test_a_long_body_is_asked_about_first(server):
    assert ask(server, "/count", "ann", {"text": "a " * 500_000}) == (200, 500_000)
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    connection.putrequest("POST", "/count")
    connection.putheader("content-length", str(50 << 20))
    connection.putheader("expect", "100-continue")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.parametrize(
    ("word", "status", "code", "words"),
    [
        (None, 401, "unauthenticated", "does not know who you are"),
        ("banned", 403, "forbidden", "banned may not call Words.who"),
        ("breaks", 500, "service_failed", "see the server's log"),
        ("lies", 500, "service_failed", "must return a trilith.Identity"),
        ("dies", 502, "replica_lost", "ended before it answered"),
    ],
)
def test_who_is_not_does_not(server, word, status, code, words):
    found, body = ask(server, "/who", word)
    assert (found, body["error"]["code"]) == (status, code)
    assert words in body["error"]["message"]
    assert "should not read" not in json.dumps(body)
    server.wait_until(lambda: ask(server, "/who", "ann")[0] == 200)  # nobody else is harmed, or not for long


def test_probes_and_keys_and_what_is_public_are_not_asked_about(server):
    assert server.get("/livez")[0] == 200
    assert server.get("/openapi.json")[0] == 200
    answer = httpx.post(f"http://127.0.0.1:{server.http}/who", json={}, headers={"x-api-key": server.key})
    assert answer.json() == {"name": "machine", "kind": "key"}
    assert httpx.post(f"http://127.0.0.1:{server.http}/who", headers={"x-api-key": "forged"}).status_code == 401
    assert server.get("/metrics")[0] == 401
    assert server.get("/check")[0] == 401  # and it is no method that anybody could call
    answer = httpx.post(f"http://127.0.0.1:{server.http}/check", json={}, headers={"x-api-key": server.key})
    assert answer.status_code == 404


def test_a_function_that_hangs_holds_up_nobody_and_lets_nobody_in(server):
    with ThreadPoolExecutor(4) as pool:
        hanging = [pool.submit(ask, server, "/who", "hangs", timeout=40.0) for _ in range(3)]
        assert ask(server, "/who", "ann")[0] == 200
        for each in hanging:
            status, body = each.result()
            assert (status, body["error"]["code"]) == (504, "deadline_exceeded")


def test_a_client_that_goes_while_it_is_asked_about_ends_the_question(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    connection.request("POST", "/who", b"{}", {"authorization": "Secret hangs", "content-type": "application/json"})

    def asking():
        counted = server.get("/metrics", port=server.metrics)[1].decode()
        [line] = [line for line in counted.splitlines() if 'in_flight{service="trilith.access"}' in line]
        return float(line.split()[-1])

    server.wait_until(lambda: asking() >= 1)
    connection.close()
    server.wait_until(lambda: asking() == 0)


def test_over_grpc(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/RepositoryIndex")
        assert channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=20) == b"\x08\x01"
        assert call(b"", timeout=20, metadata=(("authorization", "Secret ann"),)) == b""
        for metadata, status in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            ((("authorization", "Secret banned"),), grpc.StatusCode.PERMISSION_DENIED),
            ((("authorization", "Secret breaks"),), grpc.StatusCode.INTERNAL),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", timeout=20, metadata=metadata)
            assert caught.value.code() == status


def test_what_it_said_can_be_remembered(serve):
    server = serve(TARGET, "--access", f"{APPS}/access.py:Check", "--access-cache-s", "3600")
    first = ask(server, "/who", "ann")[1]["name"]
    assert first == "POST-1"
    assert ask(server, "/who", "ann")[1]["name"] == first
    assert ask(server, "/who", "bob")[1]["name"] == "POST-2"
    assert ask(server, "/who", "ann")[1]["name"] == first


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (f"{APPS}/access.py:nothing", "access has no 'nothing'"),
        (f"{APPS}/access.py", "expected `module:name`"),
        (f"{APPS}/access.py:wants_two", "takes one argument, the request"),
        (f"{APPS}/access.py:not_callable", "expected a function, or a class with __call__, got int"),
        (f"{APPS}/access.py:Words", "is a service"),
        ("no_such_module:check", "there is no module 'no_such_module'"),
    ],
)
def test_what_is_no_such_function_ends_the_start(serve, access, words):
    server = serve(TARGET, "--access", access, ready=False)
    assert server.process.wait(40) == 1
    server.wait_line(words)


def test_a_folder_of_models_has_none(serve, tmp_path):
    server = serve(tmp_path, "--access", "a:b", ready=False)
    assert server.process.wait(30) == 2
    server.wait_line("needs a service to stand beside")
