"""Pages of other origins: what every answer tells a browser, and what a real one makes of it."""

from __future__ import annotations

import html
import http.server
import json
import shutil
import socket
import subprocess
import threading

import httpx
import pytest
from live_server import APPS, Server, environment

from trilith.orchestration import new_key

PAGE = "http://page.example:3000"
ORIGIN = {"origin": PAGE}
PREFLIGHT = {
    **ORIGIN,
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,x-note",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--max-body-mb", "1")
    served = Server([f"{APPS}/contexts.py:Contexts", *ports, "--cors-origin", PAGE], environment(folder))
    yield served.wait_ready()
    served.close()


@pytest.mark.parametrize("http2", [False, True])
def test_a_preflight_is_answered_and_so_is_what_follows(server, http2):
    pytest.importorskip("h2")
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http}", http1=not http2, http2=http2) as client:
        answer = client.options("/make", headers=PREFLIGHT)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "content-type, x-note"
        own = {"status": 201, "headers": {"access-control-allow-origin": "*"}}
        answer = client.post("/make", json=own, headers=ORIGIN)
        assert answer.status_code == 201
        assert answer.headers.get_list("access-control-allow-origin") == [PAGE]
        assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/make", b"{", 400),
        ("POST", "/make", b'{"status": 500, "headers": {}}', 500),
        ("GET", "/make", b"", 405),
        ("GET", "/nowhere", b"", 404),
        ("OPTIONS", "/make", b"", 405),  # not a browser's question
        ("POST", "/make", b"x" * (2 << 20), 413),
        ("GET", "/v2/models/none", b"", 404),
        ("GET", "/v2", b"", 200),
        ("GET", "/livez", b"", 200),
        ("GET", "/openapi.json", b"", 200),
    ],
)
def test_every_answer_tells_the_browser(server, method, path, body, status):
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http}") as client:
        answer = client.request(method, path, content=body, headers={**ORIGIN, "content-type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == PAGE


def test_a_timeout_tells_it_too(server):
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http}") as client:
        answer = client.post("/hold", json={}, headers={**ORIGIN, "trilith-timeout-ms": "50"})
    assert answer.status_code == 504
    assert answer.headers["access-control-allow-origin"] == PAGE


def test_other_origins_are_told_why_not(server):
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http}") as client:
        answer = client.options("/make", headers={**PREFLIGHT, "origin": "http://evil.example"})
        assert answer.status_code == 403
        assert "its origin is no --cors-origin" in answer.json()["error"]["message"]
        assert "access-control-allow-origin" not in answer.headers
        answer = client.post("/make", json={"status": 200, "headers": {}}, headers={"origin": "http://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


def test_a_head_that_cannot_be_read_ends_nothing(server):
    for head in (b"OPTIONS /make HTTP/1.1\r\norigin: \x01", b"OPTIONS * HTTP/1.1\r\nhost: x\r\norigin: x"):
        raw = head + b"\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.http), timeout=20) as connection:
            connection.sendall(raw)
            assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_a_preflight_where_no_page_may_call_is_told_the_option(serve):
    server = serve(f"{APPS}/contexts.py:Contexts")
    answer = httpx.options(f"http://127.0.0.1:{server.http}/make", headers=PREFLIGHT)
    assert answer.status_code == 405
    assert "see --cors-origin" in answer.json()["error"]["message"]


def test_it_is_outside_of_access(serve, tmp_path):
    key, entry = new_key("page", scopes=["Contexts.heard"], requests_per_s=0.001)
    (tmp_path / "keys.yaml").write_text(f"keys:\n{entry}")
    server = serve(f"{APPS}/contexts.py:Contexts", "--cors-origin", PAGE, "--api-keys", str(tmp_path / "keys.yaml"))
    shown = {**ORIGIN, "authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http}") as client:
        assert client.options("/heard", headers=PREFLIGHT).status_code == 204  # which takes none of the key's requests
        answers = [
            client.post("/heard", json={}, headers=ORIGIN),
            client.post("/make", json={}, headers=shown),
            client.post("/heard", json={}, headers=shown),
            client.post("/heard", json={}, headers=shown),
        ]
    assert [answer.status_code for answer in answers] == [401, 403, 200, 429]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == PAGE
    assert "retry-after" in answers[-1].headers["access-control-expose-headers"]


def test_options_that_contradict_end_the_start(serve):
    server = serve(f"{APPS}/contexts.py:Contexts", "--cors-origin", "*", "--cors-credentials", ready=False)
    assert server.process.wait(30) == 2
    server.wait_line("let every page in the world act")


SCRIPT = """<!doctype html><pre id="out">waiting</pre><script>
async function ask(path, body) {
  try {
    const answer = await fetch(`http://127.0.0.1:PORT${path}`, {
      method: "POST", headers: {"content-type": "application/json", "x-note": "1"}, body: JSON.stringify(body)});
    return [answer.status, answer.headers.get("x-request-id") !== null, (await answer.text()).slice(0, 30)];
  } catch (error) { return [String(error)]; }
}
(async () => {
  const found = [await ask("/make", {status: 201, headers: {}}), await ask("/nowhere", {})];
  document.getElementById("out").textContent = JSON.stringify(found);
})();
</script>"""


class Pages(http.server.ThreadingHTTPServer):
    """One page, on an origin of its own."""

    daemon_threads = True

    def __init__(self, host="127.0.0.1"):
        super().__init__(("127.0.0.1", 0), _Page)
        self.page = ""
        self._host = host
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://{self._host}:{self.server_port}"

    def shown(self, profile):
        """What the page has written into itself, in Chromium."""
        done = subprocess.run(
            [
                *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *(f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom", f"{self.origin}/"),
            ],
            capture_output=True,
            text=True,
            timeout=50,
            check=True,
        )
        return json.loads(html.unescape(done.stdout.split('<pre id="out">')[1].split("</pre>")[0]))


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.page.encode())

    def log_message(self, *_):
        return


@pytest.mark.peer
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_real_browser(serve, tmp_path):
    with Pages() as listed, Pages() as other:
        server = serve(f"{APPS}/contexts.py:Contexts", "--cors-origin", listed.origin)
        listed.page = other.page = SCRIPT.replace("PORT", str(server.http))
        made, nowhere = listed.shown(tmp_path / "listed")
        assert made[:2] == [201, True]
        assert nowhere[:2] == [404, True]
        assert other.shown(tmp_path / "other") == [["TypeError: Failed to fetch"]] * 2
        listed.shutdown()
        other.shutdown()


COOKIES = """<!doctype html><pre id="out">waiting</pre><script>
const ask = (path, body) => fetch(`http://localhost:PORT${path}`, {
  method: "POST", credentials: "include", headers: {"content-type": "application/json"}, body: JSON.stringify(body)});
(async () => {
  let found;
  try {
    await ask("/remember", {name: "ann"});
    found = [await (await ask("/make", {status: 200, headers: {}})).json(), document.cookie];
  } catch (error) { found = [String(error)]; }
  document.getElementById("out").textContent = JSON.stringify(found);
})();
</script>"""


@pytest.mark.peer
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_real_browser_keeps_a_cookie_and_sends_it_for_a_page_that_may(serve, tmp_path):
    with Pages("localhost") as pages:
        server = serve(f"{APPS}/contexts.py:Contexts", "--cors-origin", pages.origin, "--cors-credentials")
        pages.page = COOKIES.replace("PORT", str(server.http))
        found, seen_by_script = pages.shown(tmp_path / "profile")
        assert found["kept"] == "ann"  # secure, and taken from http://localhost
        assert seen_by_script == ""  # http only
        pages.shutdown()
