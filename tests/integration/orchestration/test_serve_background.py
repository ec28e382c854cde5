"""What a service does by itself, beside its calls, when the server stops and when its gateway dies."""

import os
import signal

APP = """
import asyncio
import os

import trilith
from trilith.errors import TrilithError


@trilith.service
class Inner:
    @trilith.api(timeout_s=600)
    async def wait(self) -> int:
        open(os.environ["WITNESS"], "a").write("x")
        await asyncio.sleep(600)
        return 1


@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    async def __aenter__(self):
        asyncio.get_running_loop().create_task(self.poll())

    async def __aexit__(self, *error):
        pass

    async def poll(self):
        while True:
            await self.inner.wait()

    @trilith.api
    async def one(self) -> int:
        return 1
"""


def begun(serve, tmp_path, monkeypatch):
    witness = tmp_path / "witness"
    monkeypatch.setenv("WITNESS", str(witness))
    (tmp_path / "polls.py").write_text(APP)
    server = serve(f"{tmp_path}/polls.py:Outer")
    server.wait_until(witness.exists)
    return server


def test_a_stop_is_no_failure_of_its_calls(serve, tmp_path, monkeypatch):
    server = begun(serve, tmp_path, monkeypatch)
    assert server.terminate() == 0
    assert "Traceback" not in server.output
    assert "the gateway ended" not in server.output


def test_the_death_of_the_gateway_is(serve, tmp_path, monkeypatch):
    server = begun(serve, tmp_path, monkeypatch)
    os.kill(server.gateway_pid(), signal.SIGKILL)
    server.wait_line("the gateway ended while it had the call; another one is started")
    server.wait_until(lambda: server.post("/one") == (200, 1))
