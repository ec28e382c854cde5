"""Servers that behave as told, on a free port of the loopback, and the generator on the same loop."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvloop

from trilith.measure.load import ClosedLoop, LoadPlan, Target, prepare


class Scripted(asyncio.Protocol):
    """Answers every read with what `behave(request bytes)` gives: bytes, then perhaps "close" or "reset"."""

    def __init__(self, behave):
        self.behave = behave

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        for step in self.behave(data):
            if step == "close":
                self.transport.close()
            elif step == "reset":
                self.transport.abort()
            else:
                self.transport.write(step)


@asynccontextmanager
async def serving(behave):
    server = await asyncio.get_running_loop().create_server(lambda: Scripted(behave), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def run_load(port, *, concurrency=4, duration_s=0.15, requests=None, stop_after=None, **plan):
    target = Target.parse(f"http://127.0.0.1:{port}/p")
    requests = requests if requests is not None else [prepare(target, "GET", None)]
    loop = ClosedLoop(
        LoadPlan(target=target, requests=requests, concurrency=concurrency, duration_s=duration_s, **plan),
        on_progress=lambda _, answers: loop.stop() if stop_after is not None and answers > stop_after else None,
    )
    return await loop.run()


@pytest.fixture
def load_against():
    """Runs one level of load against a server that behaves as told; gives the outcome."""

    def run(behave, **plan):
        async def main():
            async with serving(behave) as port:
                return await run_load(port, **plan)

        return uvloop.run(main())

    return run


@pytest.fixture
def load_at():
    """Runs one level of load against a port."""
    return lambda port, **plan: uvloop.run(run_load(port, **plan))
