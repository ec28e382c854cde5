"""Mounts, methods and clients that share a service: who holds up whom, and which key opens what."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket

import httpx
from live_server import APPS

APP = f"{APPS}/mounts_shared.py"


def opened(stack, server, octets):
    client = stack.enter_context(socket.create_connection(("127.0.0.1", server.http), 20))
    client.sendall(octets)
    return client


def test_slow_clients_of_a_wsgi_application_hold_up_neither_it_nor_the_methods(serve_module):
    server = serve_module(f"{APP}:Shared")
    base = f"http://127.0.0.1:{server.http}"
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            reader = opened(stack, server, b"GET /pages/big HTTP/1.1\r\nhost: x\r\n\r\n")
            assert reader.recv(12) == b"HTTP/1.1 200"  # and reads no more
            opened(stack, server, b"POST /pages/read HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
        for _ in range(3):
            assert httpx.get(f"{base}/pages/", timeout=20).text == "0"
            assert httpx.post(f"{base}/pages/read", content=b"12345", timeout=20).text == "5"
            assert httpx.post(f"{base}/plain", timeout=20).json() == "plain"


def test_a_key_opens_a_mount_by_the_name_that_refusals_tell(serve_module, tmp_path):
    keys = tmp_path / "keys.yaml"
    entry = {"name": "one", "sha256": hashlib.sha256(b"secret").hexdigest(), "scopes": ["Shared./pages"]}
    keys.write_text(json.dumps({"keys": [entry]}))  # which is YAML
    server = serve_module(f"{APP}:Shared", "--api-keys", str(keys))
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.http}", headers={"x-api-key": "secret"}, timeout=20)
    with client:
        assert client.get("/pages/").text == "0"
        assert client.post("/plain").status_code == 403
        refused = client.get("/other")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert "does not open Shared./other" in refused.json()["error"]["message"]


def test_a_silent_stream_behind_middleware_says_that_it_goes_on(serve_module):
    server = serve_module(f"{APP}:Behind", "--stream-keep-alive-s", "0.05")
    with httpx.stream("POST", f"http://127.0.0.1:{server.http}/quiet", timeout=20) as answer:
        found = b""
        for piece in answer.iter_raw():
            found += piece
            if found.count(b":\n\n") >= 2:
                break
    assert found.startswith(b"data: 1\n\n:\n\n:\n\n")
