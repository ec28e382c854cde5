"""The agent ends while something is being started: nothing that it started outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from trilith.core.log_options import LogOptions
from trilith.errors import SetupError
from trilith.orchestration.engine import agent as agent_module
from trilith.orchestration.engine import launcher as launcher_module
from trilith.orchestration.engine.agent import Agent
from trilith.orchestration.engine.terminal import Terminal
from trilith.orchestration.spec import ServeOptions


class Channel:
    def send(self, message):
        pass

    def close(self):
        pass


class Child:
    """A process that ends when it is told to."""

    def __init__(self, launcher):
        self.channel, self.pid = Channel(), 1000
        self.over = asyncio.Event()
        self.launcher = launcher
        launcher.children.append(self)

    @property
    def alive(self):
        return not self.over.is_set()

    def kill(self):
        self.over.set()

    async def wait(self):
        await self.over.wait()
        return 0

    async def messages(self):
        await self.wait()
        return
        yield

    async def end_within(self, limit_s):
        self.launcher.ending.set()
        for _ in range(5):  # it takes a moment
            await asyncio.sleep(0)
        self.over.set()


class Launcher(AbstractContextManager):
    serves_repository = False
    sources = Path()
    http_address = grpc_address = metrics_address = ""

    def __init__(self, options):
        self.children = []
        self.gateways = self.workers = 0
        self.gateway_fails = 0
        self.slow, self.ending, self.happened = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.cancelled = 0

    def __exit__(self, *error):
        pass

    def stop_listening(self):
        pass

    def worker_ended(self, replica_id):
        pass

    async def keep_sources(self, number, needed):
        pass

    async def keep_spares(self, bounds, libraries):
        pass

    async def end_spares(self):
        pass

    async def until(self, condition):
        while not condition():
            self.happened.clear()
            await self.happened.wait()

    async def start_gateway(self, *, quiet_start):
        self.gateways += 1
        self.happened.set()
        if self.gateway_fails:
            self.gateway_fails -= 1
            raise SetupError("the process of the gateway could not be started")
        return Child(self)

    async def start_worker(self, service, **named):
        self.workers += 1
        self.happened.set()
        if self.workers > 1:
            self.slow.set()
            try:
                await self.ending.wait()  # in the middle of it the second worker would come up
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return Child(self)


def launched(monkeypatch, run, **given):
    """What `run(agent, launcher)` returns, beside an agent that serves."""

    async def main():
        launchers = []

        def make(options, **_):
            launchers.append(Launcher(options))
            return launchers[0]

        monkeypatch.setattr(agent_module, "Launcher", make)
        options = ServeOptions(target="app:Echo", drain_s=1.0, **given)
        agent = Agent(options, terminal=Terminal(log=LogOptions()))
        serving = asyncio.ensure_future(agent.run())
        async with asyncio.timeout(20):
            await launchers[0].until(lambda: launchers[0].workers)
            result = await run(agent, launchers[0])
            code = await serving
        assert [child for child in launchers[0].children if child.alive] == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return code, result

    return asyncio.run(main())


def test_a_change_that_is_being_started_is_taken_back(monkeypatch):
    async def changes(folder, include):
        yield ["app.py"]
        await asyncio.Event().wait()

    monkeypatch.setattr(agent_module, "source_changes", changes)

    async def stop(agent, launcher):
        await launcher.slow.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        return launcher

    code, launcher = launched(monkeypatch, stop, reload=True)
    assert code == 0
    assert launcher.cancelled == 1
    assert len(launcher.children) == 2, "the gateway and the first worker"


def test_a_gateway_that_waits_to_be_started_is_not(monkeypatch):
    async def stop(agent, launcher):
        launcher.gateway_fails = 1
        launcher.children[0].kill()
        await launcher.until(lambda: launcher.gateways == 2)
        os.kill(os.getpid(), signal.SIGTERM)
        return launcher

    code, launcher = launched(monkeypatch, stop)
    assert code == 0
    assert launcher.gateways == 2


@pytest.mark.parametrize("fails", [1, 3])
def test_a_gateway_that_cannot_be_started_is_tried_again(monkeypatch, fails):
    async def stop(agent, launcher):
        launcher.gateway_fails = fails
        launcher.children[0].kill()
        await launcher.until(lambda: launcher.gateways == fails + 2)
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        return launcher

    code, launcher = launched(monkeypatch, stop)
    assert code == 0
    assert len(launcher.children) == 3


def test_sources_that_cannot_be_kept_are_an_error_of_their_change(monkeypatch, tmp_path):
    (tmp_path / "app.py").write_text("")
    launcher = launcher_module.Launcher(ServeOptions(target=f"{tmp_path}/app.py:Echo", reload=True))
    launcher._peers_path = tmp_path / "peers" / "peers.sock"
    launcher._peers_path.parent.mkdir()
    asyncio.run(launcher.keep_sources(2, {1}))
    assert (tmp_path / "peers" / "2.sources").exists()

    async def refused(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "to_thread", refused)
        with pytest.raises(SetupError, match="can't start new thread"):
            asyncio.run(launcher.keep_sources(3, {2}))
    (tmp_path / "peers" / "1.sources").mkdir()  # what cannot be removed
    with pytest.raises(SetupError, match="cannot be kept"):
        asyncio.run(launcher.keep_sources(3, {2}))
