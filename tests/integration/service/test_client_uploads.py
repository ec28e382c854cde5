"""Large bodies of the client: an answer that comes in the midst of one is seen at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading

import pytest

from trilith.service.client.encoding import Body
from trilith.service.client.options import ConnectionOptions
from trilith.service.client.patience import Patience
from trilith.service.client.transport import AsyncTransport, SyncTransport

HEAD = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\ntrilith-not-begun: 1\r\n\r\n%b"
BODIES = {
    "plain": Body(accept="*/*", content=bytes(64 << 20), content_type="application/octet-stream"),
    "form": Body(accept="*/*", fields=(("x", ("x.bin", bytes(64 << 20), "application/octet-stream")),)),
}
PATIENCE = Patience(asked_s=50.0, method_s=None)


@contextlib.contextmanager
def server(answer, *, reads_all):
    """Answers one request, in the middle of its body or behind it; the head of it, and how long the body was."""
    listening = socket.create_server(("127.0.0.1", 0))
    seen = {}
    done = threading.Event()

    def serve():
        with listening, listening.accept()[0] as client:
            octets = b""
            while b"\r\n\r\n" not in octets:
                octets += client.recv(65536)
            head, _, rest = octets.partition(b"\r\n\r\n")
            seen["head"] = head.lower()
            size = int(next(line for line in seen["head"].split(b"\r\n") if line.startswith(b"content-length:"))[15:])
            seen["body"] = len(rest)
            while reads_all and seen["body"] < size:
                seen["body"] += len(client.recv(1 << 20))
            body = json.dumps(answer[1]).encode()
            client.sendall(HEAD % (answer[0], len(body), body))
            done.wait(40)  # and neither reads more nor closes

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", seen
    finally:
        done.set()
        thread.join()


def post(url, body, *, asynchronous):
    if not asynchronous:
        transport = SyncTransport(url, ConnectionOptions())
        try:
            return transport.post("/x", body, PATIENCE)
        finally:
            transport.close()

    async def main():
        transport = AsyncTransport(url, ConnectionOptions())
        try:
            return await transport.post("/x", body, PATIENCE)
        finally:
            await transport.close()

    return asyncio.run(main())


@pytest.mark.parametrize("asynchronous", [False, True], ids=["waits", "awaits"])
@pytest.mark.parametrize("kind", list(BODIES))
def test_a_refusal_is_seen_while_the_body_goes(kind, asynchronous):
    with server((b"413 Too Large", {"error": {"code": "payload_too_large", "message": "no"}}), reads_all=False) as (
        url,
        seen,
    ):
        status, content_type, body, refused = post(url, BODIES[kind], asynchronous=asynchronous)
    assert (status, content_type, refused.not_begun) == (413, "application/json", True)
    assert b"payload_too_large" in body
    assert seen["body"] < 64 << 20


@pytest.mark.parametrize("asynchronous", [False, True], ids=["waits", "awaits"])
def test_a_large_body_arrives_whole(asynchronous):
    with server((b"200 OK", 7), reads_all=True) as (url, seen):
        status, _, body, _ = post(url, BODIES["plain"], asynchronous=asynchronous)
    assert (status, json.loads(body)) == (200, 7)
    assert seen["body"] == 64 << 20
    assert b"accept: */*" in seen["head"]
    assert b"content-type: application/octet-stream" in seen["head"]
    assert b"trilith-timeout-ms: 50000" in seen["head"]
