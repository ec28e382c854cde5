"""When the time of a drain is over: whoever still waits is told, generators are closed, the instance and mounts end."""

from __future__ import annotations

import asyncio
import json
import signal

import httpx
import pytest
from websockets.asyncio.client import connect

APP = """
import asyncio, sys, time
from collections.abc import AsyncIterator, Iterator
import trilith

def print(line):  # at once: what threads write otherwise mixes
    sys.stdout.write(f"{line}\\n")
    sys.stdout.flush()

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("the mount has ended")
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
    elif scope["type"] == "http":
        await receive()
        print("mount began")
        message = await receive()
        print(f"the mount saw {message['type']}")

@trilith.service(threads=4)
class Slow:
    app = trilith.mount("/app", app)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        print("the instance was left")

    @trilith.api
    async def count(self) -> AsyncIterator[int]:
        try:
            yield 1
            print("count began")
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.1)
            print("the generator was closed")

    @trilith.api
    def count_in_thread(self) -> Iterator[int]:
        try:
            yield 1
            print("count_in_thread began")
            while True:
                time.sleep(0.05)
                yield 2
        finally:
            print("the generator in a thread was closed")

    @trilith.api
    async def talk(self, words: AsyncIterator[str]) -> AsyncIterator[str]:
        try:
            async for word in words:
                yield word
        finally:
            print("the talk has ended")

    @trilith.api
    async def wait(self) -> int:
        try:
            print("wait began")
            await asyncio.sleep(3600)
        finally:
            print("the call was cancelled")

    @trilith.api
    def hang(self) -> int:
        print("hang began")
        time.sleep(3600)

    @trilith.api
    async def mark(self) -> str:
        return "one"
"""

KINDS = {
    "count": "text/event-stream",
    "count_in_thread": "application/jsonl",
    "wait": "application/json",
    "hang": "application/json",
}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(APP)
    return path


async def ask(client, server, name):
    """The status, content type and whole body of one that has not ended by itself."""
    if name == "app":
        return await client.get(f"http://127.0.0.1:{server.http}/app/x")
    url = f"http://127.0.0.1:{server.http}/{name}"
    return await client.post(url, json={}, headers={"accept": KINDS[name]})


async def closed(server, path):
    """The code with which a websocket is closed that waits."""
    async with connect(f"ws://127.0.0.1:{server.http}{path}") as socket:
        async for _ in socket:
            pass
        return socket.close_code


async def all_answers(server, end):
    sockets = [asyncio.ensure_future(closed(server, path)) for path in ("/talk", "/app/socket")]
    async with httpx.AsyncClient(timeout=60) as client:
        asked = {name: asyncio.ensure_future(ask(client, server, name)) for name in ("app", *KINDS)}
        for name in (*KINDS, "mount"):
            await asyncio.to_thread(server.wait_line, f"{name} began")
        await asyncio.to_thread(end)
        assert await asyncio.gather(*sockets) == [1001, 1001]
        return {name: await one for name, one in asked.items()}


def check(answers):
    for name in ("wait", "hang", "app"):
        error = answers[name].json()["error"]
        assert (answers[name].status_code, error["code"]) == (503, "draining"), name
        assert answers[name].headers["x-request-id"] == error["request_id"]
        assert "stopping" in error["message"]
    events = answers["count"].text.split("\n\n")
    assert (answers["count"].status_code, events[-1]) == (200, "")
    assert events[-2].startswith("event: error\ndata: ")
    assert json.loads(events[-2].partition("data: ")[2])["error"]["code"] == "draining"
    lines = answers["count_in_thread"].text.splitlines()
    assert json.loads(lines[-1])["error"]["code"] == "draining"


def test_at_the_end_of_a_servers_drain(serve, source):
    server = serve(f"{source}:Slow", "--drain-timeout-s", "1")
    check(asyncio.run(all_answers(server, lambda: server.process.send_signal(signal.SIGTERM))))
    assert server.process.wait(20) == 0
    for line in ("the generator was closed", "the generator in a thread was closed", "the call was cancelled"):
        server.wait_line(line)


def test_at_the_end_of_the_drain_of_what_was_replaced(serve, source):
    server = serve(f"{source}:Slow", "--reload", "--drain-timeout-s", "1")
    server.wait_line("watching")

    def change():
        source.write_text(APP.replace('"one"', '"two"'))
        server.wait_until(lambda: server.post("/mark") == (200, "two"))

    check(asyncio.run(all_answers(server, change)))
    server.wait_line("the call was cancelled")
    server.wait_line("the generator was closed")
    server.wait_line("the generator in a thread was closed")
    server.wait_line("the mount saw http.disconnect")
    server.wait_line("the mount has ended")
    server.wait_line("the instance was left")
    assert server.lines.index("the generator was closed") < server.lines.index("the instance was left")
    assert "replica_lost" not in server.output
