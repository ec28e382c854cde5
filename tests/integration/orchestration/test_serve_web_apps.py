"""FastAPI, Starlette and Flask, mounted, as their users use them."""

from __future__ import annotations

import httpx
import pytest
from live_server import APPS
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from trilith.orchestration import new_key


@pytest.fixture(scope="module")
def web(serve_module):
    server = serve_module(f"{APPS}/web.py:Web")
    assert "mounts /flask, /named, /star, /api" in server.wait_line("ready: ")
    return server


@pytest.fixture
def client(web):
    with httpx.Client(base_url=f"http://127.0.0.1:{web.http}", timeout=20) as client:
        yield client


def test_fastapi(client, web):
    answer = client.get("/api/items/3", headers={"x-request-id": "r-9"})
    assert answer.json() == {"number": 3, "made": "web", "id": "r-9"}
    assert client.get("/api/items/x").status_code == 422
    assert client.get("/api/who").json() == client.get("/api/who-in-thread").json() == "web"
    assert client.get("/api/missing").json() == {"detail": "not here"}
    assert client.post("/api/files", files={"file": ("../a", b"x" * 3_000_000)}).json()["size"] == 3_000_000
    assert client.get("/api/later").json() == "soon"
    web.wait_until(lambda: client.get("/api/done").json() == ["done"])
    assert client.post("/greet", json={}).json() == "web"


def test_fastapis_own_documents_are_where_they_should_be(client):
    assert "/api/openapi.json" in client.get("/api/docs").text
    document = client.get("/api/openapi.json").json()
    assert document["servers"] == [{"url": "/api"}]
    assert "/items/{number}" in document["paths"]
    ours = client.get("/openapi.json").json()
    assert [mount["path"] for mount in ours["x-trilith-mounts"]] == ["/flask", "/named", "/star", "/api"]
    assert list(ours["paths"]) == ["/greet"]


def test_what_a_framework_answers_itself_is_in_the_log_with_its_frames(client, web):
    answer = client.get("/api/fails")
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    web.wait_line("ValueError: fastapi's own")
    web.wait_line("in fails")


def test_starlette(client, web):
    answer = client.get("/star/go")
    assert answer.headers["location"] == f"http://127.0.0.1:{web.http}/star/there/y"
    with client.stream("GET", "/star/there/y") as answer:
        assert next(answer.iter_lines()) == "0"
    web.wait_until(lambda: client.get("/star/closed").text == "1")
    found = client.get("/star/files/web.py")
    assert found.text.startswith('"""Mounts of the frameworks')
    head = client.head("/star/files/web.py")
    assert head.headers["content-length"] == str(len(found.content))
    part = client.get("/star/files/web.py", headers={"range": "bytes=3-8"})
    assert (part.status_code, part.text) == (206, "Mounts")
    assert client.get("/star/files/web.py", headers={"if-none-match": found.headers["etag"]}).status_code == 304
    assert client.get("/star/files/../../secret").status_code == 404


@pytest.mark.parametrize("mount", ["/flask", "/named"])
def test_flask(client, mount):
    assert client.get(f"{mount}/hello/a%20b?q=1").json() == {"hello": "a b", "q": "1", "from": "web"}
    assert client.post(f"{mount}/upload", content=iter([b"x" * 100_000] * 10)).json() == {"size": 1_000_000}
    assert client.get(f"{mount}/go").headers["location"] == f"{mount}/hello/x"
    assert client.get(f"{mount}/counted").text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert client.head(f"{mount}/hello/x").content == b""
    assert client.get(f"{mount}/raises").status_code == 500
    assert client.post(f"{mount}/hello/x").status_code == 405


def test_websockets_of_starlette(web):
    with connect(f"ws://127.0.0.1:{web.http}/star/chat") as socket:
        socket.send("hello")
        assert socket.recv(20) == "web: hello"
    with pytest.raises(InvalidStatus) as refused, connect(f"ws://127.0.0.1:{web.http}/star/nowhere"):
        pass
    assert refused.value.response.status_code == 403


def test_middleware_stands_round_all_of_a_service(serve_module):
    server = serve_module(f"{APPS}/web.py:Wrapped")
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http}", timeout=20) as client:
        answer = client.post("/words", json={"n": 1000})
        assert (answer.json()[0], answer.headers["x-stamped"]) == ("word", "/words")
        assert answer.headers["content-encoding"] == "gzip"
        assert int(answer.headers["content-length"]) < 200
        assert client.post("/words", json={"n": "x"}).json()["error"]["code"] == "invalid_input"
        octets = {"content-type": "application/octet-stream"}
        assert client.post("/size", content=iter([bytes(100_000)] * 30), headers=octets).json() == 3_000_000
        lines = client.post("/count", json={"n": 3}, headers={"accept": "application/jsonl"})
        assert (lines.text, lines.headers["x-stamped"]) == ("0\n1\n2\n", "/count")
        assert [client.get("/pages/visits").text for _ in range(3)] == ["1", "2", "3"]
        assert client.get("/flask/hello/x").json()["from"] == "wrapped"
        failed = client.post("/raises", json={}, headers={"x-request-id": "mw-1"})
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, "service_failed")
        server.wait_line("ValueError: of the middleware")
        assert client.post("/words", json={"n": 1}).status_code == 200
        assert client.get("/words").status_code == 405
        assert list(client.get("/openapi.json").json()["paths"]) == ["/words", "/size", "/count", "/raises"]
    with connect(f"ws://127.0.0.1:{server.http}/pages/chat") as socket:
        socket.send("hello")
        assert socket.recv(20) == "wrapped: hello"
    with connect(f"ws://127.0.0.1:{server.http}/count?n=3") as socket:
        assert list(socket) == ["0", "1", "2"]


def test_with_keys_what_opened_the_door_is_told_to_nobody(serve, tmp_path):
    keys, entries = {}, []
    for name, scope in (("path", "/app/*"), ("service", "Mounts"), ("method", "Mounts.add"), ("all", "*")):
        keys[name], entry = new_key(name, scopes=[scope])
        entries.append(entry)
    file = tmp_path / "keys.yaml"
    file.write_text("keys:\n" + "".join(entries))
    server = serve(f"{APPS}/mounts.py:Mounts", "--api-keys", str(file))

    def status(key, path):
        return httpx.get(f"http://127.0.0.1:{server.http}{path}", headers={"x-api-key": key}).status_code

    assert httpx.get(f"http://127.0.0.1:{server.http}/app/echo").status_code == 401
    assert status(keys["method"], "/app/echo") == 403
    assert [status(keys[name], "/app/echo") for name in ("path", "service", "all")] == [200] * 3
    assert status(keys["path"], "/app/%2e%2e/other") == 403
    assert status(keys["path"], "/other") == 403
    bearer = {"authorization": f"Bearer {keys['all']}"}
    told = httpx.get(f"http://127.0.0.1:{server.http}/app/echo", headers=bearer).json()
    assert "authorization" not in [name for name, _ in told["headers"]]
    assert told["identity"] == "all"


def test_a_change_of_an_application_is_seen(serve, tmp_path):
    source = tmp_path / "changing.py"
    text = (
        "import trilith\n"
        "async def page(scope, receive, send):\n"
        "    if scope['type'] == 'lifespan':\n"
        "        raise RuntimeError\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "    await send({'type': 'http.response.body', 'body': b'first'})\n"
        "@trilith.service\n"
        "class Pages:\n"
        "    page = trilith.mount('/ui', page)\n"
    )
    source.write_text(text)
    server = serve(f"{source}:Pages", "--reload")
    address = f"http://127.0.0.1:{server.http}"
    assert httpx.get(f"{address}/ui").text == "first"
    source.write_text(text.replace("first", "second").replace("'/ui'", "'/web'"))
    server.wait_until(lambda: httpx.get(f"{address}/web").text == "second")
    assert httpx.get(f"{address}/ui").status_code == 404


def test_a_startup_that_fails_says_why(serve, tmp_path):
    source = tmp_path / "failing.py"
    source.write_text(
        "from contextlib import asynccontextmanager\n"
        "from fastapi import FastAPI\n"
        "import trilith\n"
        "@asynccontextmanager\n"
        "async def lifespan(app):\n"
        "    raise ConnectionError('no database here')\n"
        "    yield\n"
        "@trilith.service\n"
        "class Pages:\n"
        "    page = trilith.mount('/ui', FastAPI(lifespan=lifespan))\n"
    )
    server = serve(f"{source}:Pages", ready=False)
    line = server.wait_line("no database here")
    assert "Pages: the mount at /ui could not be started: ConnectionError: no database here" in line
