"""API keys of a real server: over HTTP/1.1, HTTP/2 and gRPC, read again, and told to nobody."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import httpx
import pytest
from live_server import APPS, Server, environment
from test_serve_tls import _certificate

from trilith.orchestration import new_key

TARGET = f"{APPS}/contexts.py:Contexts"
OIP = "/inference.GRPCInferenceService"


class Keys:
    """A file of keys."""

    def __init__(self, path):
        self.path = path
        self.keys = {}
        self.entries = {}

    def add(self, name, *scopes, **limits):
        self.keys[name], self.entries[name] = new_key(name, scopes=list(scopes), **limits)
        return self.write()

    def write(self, public="[]"):
        beside = self.path.with_suffix(".new")
        beside.write_text(f"public: {public}\nkeys:\n" + "".join(self.entries.values()))
        beside.replace(self.path)
        return self.keys

    def of(self, name):
        return {"authorization": f"Bearer {self.keys[name]}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    keys = Keys(tmp_path_factory.mktemp("keys") / "keys.yaml")
    keys.add("all", "*")
    keys.add("one", "Contexts.heard")
    keys.add("models", "model:*")
    keys.add("few", "*", concurrency=1)
    keys.add("slow", "*", requests_per_s=0.001, burst=1)
    keys.add("rare", "*", requests_per_s=0.001, burst=1)
    keys.add("crowd", "*", concurrency=50)
    keys.add("small", "*", max_body_mb=0.001)
    keys.keys["old"], entry = new_key("old", scopes=["*"])
    keys.entries["old"] = entry + "    expires: 2020-01-01\n"
    keys.write("[/openapi.json]")
    folder = tmp_path_factory.mktemp("run")
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    server = Server([TARGET, *ports, "--api-keys", str(keys.path), "--log-level", "debug"], environment(folder))
    yield server.wait_ready(), keys
    server.close()


def post(server, path, headers=None, value=None, client=httpx):
    answer = client.post(f"http://127.0.0.1:{server.http}{path}", json=value or {}, headers=headers or {}, timeout=20)
    return answer, answer.json()


def test_a_key_opens_and_is_told_to_nobody_behind(served):
    server, keys = served
    for headers in (keys.of("all"), {"x-api-key": keys.keys["all"]}, {"authorization": f"bearer  {keys.keys['all']}"}):
        answer, heard = post(server, "/heard", headers)
        assert answer.status_code == 200
        assert (heard["name"], heard["kind"]) == ("all", "key")
        assert not {"authorization", "x-api-key"} & set(heard)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer trilith_forged"},
        {"authorization": "Bearer"},
        {"authorization": "Basic YTpi"},
        {"x-api-key": ""},
        {"x-api-key": "x" * 5000},
        {"authorization": "Bearer \xff\xfe"},
    ],
)
def test_without_one_or_with_a_forged_one_nothing_opens(served, headers):
    server, _ = served
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    answer, body = post(server, "/heard", raw)
    assert answer.status_code == 401
    assert body["error"]["code"] == "unauthenticated"
    assert answer.headers["www-authenticate"].startswith('Bearer realm="trilith"')


def test_an_expired_one(served):
    server, keys = served
    answer, body = post(server, "/heard", keys.of("old"))
    assert (answer.status_code, body["error"]["message"]) == (401, "the key 'old' has expired")


@pytest.mark.parametrize(
    ("key", "path", "status"),
    [
        ("one", "/heard", 200),
        ("one", "/make", 403),
        ("models", "/heard", 403),
        ("models", "/v2/models/none/infer", 404),
        ("one", "/v2/models/none/infer", 403),
        ("models", "/v2/repository/index", 403),
        ("all", "/v2/repository/index", 200),
        (None, "/v2/models/none/infer", 401),
        (None, "/nowhere", 401),
        ("one", "/nowhere", 403),
    ],
)
@pytest.mark.parametrize("http2", [False, True])
def test_scopes(served, key, path, status, http2):
    pytest.importorskip("h2")
    server, keys = served
    with httpx.Client(http1=not http2, http2=http2) as client:
        answer, body = post(server, path, keys.of(key) if key else {}, client=client)
        assert answer.status_code == status
        if status in (401, 403):
            error = body["error"]
            assert body["code"] if path.startswith("/v2") else error["code"] in ("unauthenticated", "forbidden")


def test_what_is_open(served):
    server, keys = served
    for path, status in (
        ("/livez", 200),
        ("/readyz", 200),
        ("/v2/health/live", 200),
        ("/openapi.json", 200),
        ("/docs", 401),
        ("/metrics", 401),
        ("/v2", 401),
    ):
        assert server.get(path)[0] == status, path
    assert httpx.get(f"http://127.0.0.1:{server.http}/docs", headers=keys.of("one")).status_code == 200
    assert httpx.get(f"http://127.0.0.1:{server.http}/metrics", headers=keys.of("one")).status_code == 403
    assert server.get("/metrics", port=server.metrics)[0] == 200


def test_the_api_says_that_it_wants_a_key(served):
    server, _ = served
    validator = pytest.importorskip("openapi_spec_validator")
    document = json.loads(server.get("/openapi.json")[1])
    validator.validate(document)
    assert document["components"]["securitySchemes"]["bearer"] == {"type": "http", "scheme": "bearer"}
    assert {"401", "403", "429"} <= set(document["paths"]["/heard"]["post"]["responses"])


def test_a_body_that_is_too_long_for_its_key(served):
    server, keys = served
    answer, body = post(server, "/size", keys.of("small"), {"text": "x" * 2000})
    assert (answer.status_code, body["error"]["code"]) == (413, "payload_too_large")
    assert post(server, "/size", keys.of("small"), {"text": "x" * 100})[1] == 100

    def pieces():
        for _ in range(20):
            yield b" " * 100

    chunked = httpx.post(
        f"http://127.0.0.1:{server.http}/size",
        content=pieces(),
        headers={"content-type": "application/json", **keys.of("small")},
    )
    assert chunked.status_code == 413
    assert post(server, "/size", keys.of("all"), {"text": "x" * 2000})[1] == 2000


def test_a_long_body_without_a_key_is_refused_before_it_is_read(served):
    server, _ = served
    connection = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    connection.putrequest("POST", "/size")
    connection.putheader("content-length", str(50 << 20))
    connection.putheader("expect", "100-continue")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_rates_and_places_of_one_key(served):
    server, keys = served
    assert post(server, "/heard", keys.of("slow"))[0].status_code == 200
    answer, body = post(server, "/heard", keys.of("slow"))
    assert (answer.status_code, body["error"]["code"]) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) > 100

    holding = http.client.HTTPConnection("127.0.0.1", server.http, timeout=20)
    holding.request("POST", "/hold", b"{}", {"content-type": "application/json", **keys.of("few")})

    def busy():
        return post(server, "/heard", keys.of("few"))[0].status_code == 429

    server.wait_until(busy)
    assert post(server, "/heard", keys.of("all"))[0].status_code == 200
    holding.close()  # the client goes: its place is free
    server.wait_until(lambda: not busy())


def call(channel, method, key=None, message=b"", header="authorization"):
    metadata = () if key is None else ((header, f"Bearer {key}" if header == "authorization" else key),)
    return channel.unary_unary(f"{OIP}/{method}")(message, timeout=20, metadata=metadata)


def test_over_grpc(served):
    server, keys = served
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        assert call(channel, "ServerLive") == b"\x08\x01"
        assert call(channel, "ServerMetadata", keys.keys["one"])
        assert call(channel, "ServerMetadata", keys.keys["one"], header="x-api-key")
        infer = b"\x0a\x04none"
        for method, key, status in (
            ("ServerMetadata", None, grpc.StatusCode.UNAUTHENTICATED),
            ("ServerMetadata", "forged", grpc.StatusCode.UNAUTHENTICATED),
            ("ModelInfer", keys.keys["one"], grpc.StatusCode.PERMISSION_DENIED),
            ("ModelInfer", keys.keys["models"], grpc.StatusCode.NOT_FOUND),
            ("RepositoryIndex", keys.keys["models"], grpc.StatusCode.PERMISSION_DENIED),
            ("ModelInfer", keys.keys["rare"], grpc.StatusCode.NOT_FOUND),
            ("ModelInfer", keys.keys["rare"], grpc.StatusCode.RESOURCE_EXHAUSTED),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(channel, method, key, infer)
            assert caught.value.code() == status, method
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, "ModelInfer", keys.keys["small"], b"\x0a\xd0\x0f" + b"x" * 2000)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_places_are_given_back_whenever_clients_go(served):
    server, keys = served
    key = keys.keys["crowd"]
    head = f"POST /hold HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n"
    whole = f"{head}content-length: 2\r\n\r\n{{}}".encode()
    longer = f"{head}content-length: 200000\r\n\r\n".encode() + b" " * 100_000
    chunked = f"{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n".encode()
    for sent in (whole, whole[:40], whole[:-1], longer, chunked, whole + whole, whole.replace(b"/hold", b"/nowhere")):
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", server.http), timeout=20) as connection:
                connection.sendall(sent)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        method = channel.unary_unary("/Contexts/Hold")
        calls = [method.future(b"", timeout=20, metadata=(("x-api-key", key),)) for _ in range(40)]
        for call in calls:
            call.cancel()

    def in_flight():
        counted = server.get("/metrics", port=server.metrics)[1].decode()
        [line] = [line for line in counted.splitlines() if 'trilith_access_in_flight{key="crowd"}' in line]
        return float(line.split()[-1])

    server.wait_until(lambda: in_flight() == 0)
    assert post(server, "/heard", keys.of("crowd"))[0].status_code == 200


def test_keys_are_counted_by_name_and_shown_nowhere(served):
    server, keys = served
    post(server, "/heard", keys.of("all"))
    post(server, "/heard", {"authorization": "Bearer trilith_forged_for_the_log"})
    post(server, "/make", keys.of("one"))
    post(server, "/make", {**keys.of("all"), "trilith-timeline": "1"}, {"status": 500, "headers": {}})
    counted = server.get("/metrics", port=server.metrics)[1].decode()
    assert 'trilith_access_total{key="all",outcome="ok"}' in counted
    assert 'trilith_access_total{key="one",outcome="forbidden"}' in counted
    assert 'trilith_access_total{key="",outcome="unauthenticated"}' in counted
    assert 'trilith_access_in_flight{key="all"} 0' in counted
    everything = counted + json.dumps(server.status()) + server.output
    for pid in (server.process.pid, server.gateway_pid()):
        everything += Path(f"/proc/{pid}/cmdline").read_text()
    for key in [*keys.keys.values(), "trilith_forged_for_the_log"]:
        assert key not in everything


def test_the_file_is_read_again_and_a_broken_one_changes_nothing(serve, tmp_path):
    keys = Keys(tmp_path / "keys.yaml")
    keys.add("first", "*")
    server = serve(TARGET, "--api-keys", str(keys.path))
    assert post(server, "/heard", keys.of("first"))[0].status_code == 200

    keys.add("second", "*")
    server.process.send_signal(signal.SIGHUP)
    server.wait_line("2 keys read from")
    server.wait_until(lambda: post(server, "/heard", keys.of("second"))[0].status_code == 200)

    whole = keys.path.read_text()
    for broken, words in (("keys: [", "line 1"), ("keys:\n  - name: a\n", "line 2: keys[0]"), (None, "cannot be read")):
        said = len(server.lines)
        if broken is None:
            keys.path.unlink()
        else:
            keys.path.write_text(broken)
        server.process.send_signal(signal.SIGHUP)
        assert words in server.wait_line("the keys before stay", after=said)
        assert post(server, "/heard", keys.of("second"))[0].status_code == 200
        assert post(server, "/heard")[0].status_code == 401

    os.kill(server.gateway_pid(), signal.SIGKILL)  # the next gateway gets the keys that hold
    server.wait_until(lambda: _opens(server, keys.of("second")))
    assert _status(server, {}) == 401

    del keys.entries["second"]
    keys.write()
    assert keys.path.read_text() != whole
    server.process.send_signal(signal.SIGHUP)
    server.wait_line("1 keys read from")
    server.wait_until(lambda: _status(server, keys.of("second")) == 401)
    assert server.terminate() == 0


def _status(server, headers):
    try:
        return post(server, "/heard", headers)[0].status_code
    except httpx.TransportError:
        return 0


def _opens(server, headers):
    return _status(server, headers) == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "the keys cannot be read"),
        ("keys:\n  - name: a\n    scopes: ['*']\n    sha256: trilith_in_the_wrong_place\n", "line 4: keys[0].sha256"),
        ("kays: []", "line 1: kays: unknown key; did you mean 'keys'"),
    ],
)
def test_a_file_that_is_wrong_ends_the_start(serve, tmp_path, text, words):
    path = tmp_path / "keys.yaml"
    if text is not None:
        path.write_text(text)
    server = serve(TARGET, "--api-keys", str(path), ready=False)
    assert server.process.wait(30) == 2
    assert words in server.wait_line(str(path))
    assert "trilith_in_the_wrong_place" not in server.output


def trilith(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "trilith", "keys", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_keys_on_the_command_line(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("# ours\npublic: [/docs]\n")
    first = trilith("new", "ann", "--scope", "Ocr", "--scope", "model:*", "--file", str(path), "--expires-days", "30")
    second = trilith("new", "bob", "--scope", "*", "--file", str(path), "--requests-per-s", "5", "--concurrency", "2")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout.startswith("trilith_")
    text = path.read_text()
    assert text.startswith("# ours\npublic: [/docs]\nkeys:\n  - name: ann\n")
    assert first.stdout.strip() not in text
    listed = trilith("list", str(path))
    assert listed.returncode == 0
    assert "ann" in listed.stdout
    assert "bob" in listed.stdout
    again = trilith("new", "bob", "--scope", "*", "--file", str(path))
    assert again.returncode == 2
    assert "was not added" in again.stderr
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["keys.yaml"]
    assert trilith("new", "eve").returncode == 2
    printed = trilith("new", "eve", "--scope", "*")
    assert printed.stdout.startswith("trilith_")
    assert "sha256" in printed.stderr
    fresh = tmp_path / "fresh.yaml"
    assert trilith("new", "eve", "--scope", "*", "--file", str(fresh)).returncode == 0
    assert fresh.stat().st_mode & 0o777 == 0o600


def test_by_nohup_the_file_is_read_again_too(tmp_path, tmp_path_factory):
    keys = Keys(tmp_path / "keys.yaml")
    keys.add("first", "*")
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup has its child inherit
    try:
        ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
        server = Server([TARGET, *ports, "--api-keys", str(keys.path)], environment(tmp_path_factory.mktemp("run")))
    finally:
        signal.signal(signal.SIGHUP, ignored)
    try:
        server.wait_ready()
        keys.add("second", "*")
        server.process.send_signal(signal.SIGHUP)
        server.wait_line("2 keys read from")
        server.wait_until(lambda: _opens(server, keys.of("second")))
    finally:
        server.close()


def test_a_terminal_that_closes_still_ends_the_server(tmp_path, tmp_path_factory):
    keys = Keys(tmp_path / "keys.yaml")
    keys.add("first", "*")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "trilith", "serve", TARGET, "--http-port", "0", "--grpc-port", "off"]
    server = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command, "--metrics-port", "off", "--api-keys", str(keys.path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(tmp_path_factory.mktemp("run")),
    )
    os.close(theirs)
    seen = threading.Event()
    said = []

    def read():
        try:
            while data := os.read(ours, 65536):
                said.append(data)
                if b"ready: " in b"".join(said):
                    seen.set()
                    return
        except OSError:
            return

    reader = threading.Thread(target=read)
    reader.start()
    assert seen.wait(40), b"".join(said)
    reader.join()
    os.close(ours)  # the terminal is closed
    assert server.wait(30) is not None


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_certificate_says_who_it_is(serve, tmp_path, with_keys):
    pytest.importorskip("cryptography")
    pem, key = _certificate(tmp_path)
    options = ["--tls-certificate", str(pem), "--tls-key", str(key), "--tls-client-ca", str(pem)]
    if with_keys:
        (tmp_path / "keys.yaml").write_text(
            "keys:\n  - {name: machine, certificate: localhost, scopes: [Contexts.heard], concurrency: 2}\n"
        )
        options += ["--api-keys", str(tmp_path / "keys.yaml")]
    server = serve(TARGET, *options, ready=False)
    port = int(server.wait_line("ready: https://").split("https://127.0.0.1:", 1)[1].split()[0])
    context = ssl.create_default_context(cafile=str(pem))
    context.load_cert_chain(pem, key)
    with httpx.Client(base_url=f"https://localhost:{port}", verify=context) as client:
        heard = client.post("/heard", json={}).json()
        assert (heard["name"], heard["kind"]) == ("machine" if with_keys else "localhost", "certificate")
        assert client.post("/size", json={"text": "a"}).status_code == (403 if with_keys else 200)


@pytest.mark.peer
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.parametrize("public", ["[/docs]", "[/docs, /openapi.json]"])
def test_the_page_asks_a_person_for_a_key_where_it_needs_one(serve, tmp_path, public):
    keys = Keys(tmp_path / "keys.yaml")
    keys.add("all", "*")
    keys.write(public)
    server = serve(TARGET, "--api-keys", str(keys.path))
    shown = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000", "--dump-dom"),
            f"http://127.0.0.1:{server.http}/docs",
        ],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    ).stdout
    asks = '<p class="row" id="access">' in shown
    assert asks is ("openapi" not in public)
    assert ("this needs a key" in shown) is asks
    assert ("<code>/heard</code>" in shown) is not asks
