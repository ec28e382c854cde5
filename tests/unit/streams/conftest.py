"""A hosted service whose streams a test reads and writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import TrilithError
from trilith.net.transport import Window
from trilith.service import InProcessResolver, ServiceHost, StreamServiceCall
from trilith.testing.streams import MemoryStream
from trilith.wire.calls import CallMeta, ResultMeta


class Streamed:
    """One call: `port` has its items, `answer` its end."""

    def __init__(self, call: StreamServiceCall, port: MemoryStream, answer: asyncio.Future[Any]) -> None:
        self.call = call
        self.port = port
        self.answer = answer

    async def items(self, count: int) -> list[bytes]:
        """Takes so many items, as they come."""
        found: list[bytes] = []
        while len(found) < count:
            found += self.port.take(count - len(found))
            if len(found) < count:
                assert not self.answer.done(), f"the call ended after {found}: {self.answer!r}"
                await asyncio.sleep(0.001)
        return found

    async def asked(self) -> None:
        """Waits until the method wants an item."""
        while not self.port.asked:  # noqa: ASYNC110 - the twin has no event
            await asyncio.sleep(0.001)

    async def rest(self) -> list[bytes]:
        """All items to the end."""
        found: list[bytes] = []
        while not self.answer.done() or self.port.sent:
            found += self.port.take(100)
            await asyncio.sleep(0.001)
        return found


class HostedStreams:
    def __init__(self, host: ServiceHost) -> None:
        self.host = host

    def start(
        self,
        method: str,
        body: bytes = b"{}",
        content_type: str = "application/json",
        *,
        accept: str | None = None,
        query: str = "",
        deadline: float | None = None,
        trace: bool = False,
        window: Window | None = None,
    ) -> Streamed:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(outcome: ResultMeta | TrilithError, buffers: Any) -> None:
            if isinstance(outcome, TrilithError):
                answer.set_exception(outcome)
            else:
                answer.set_result((outcome, [bytes(buffer) for buffer in buffers]))

        headers = {"accept": accept} if accept else None
        meta = CallMeta(self.host.spec.name, method, content_type, "r1", headers, trace, query)
        context = Context(
            request_id="r1", timeline=Timeline("service", 2), deadline=deadline, headers=meta.headers or {}
        )
        port = MemoryStream(window)
        call = StreamServiceCall(meta, [body], context, done, port=port)
        self.host.handle(call)
        return Streamed(call, port, answer)

    async def idle(self) -> None:
        """Waits until no call holds a slot."""
        for _ in range(10_000):
            if not self.host.in_flight:
                return
            await asyncio.sleep(0.001)
        pytest.fail("a call still holds a slot")


Scenario = Callable[[HostedStreams], Awaitable[Any]]


@pytest.fixture
def stream() -> Callable[..., Any]:
    """Runs a scenario against a hosted service."""

    def run(service: Any, scenario: Scenario) -> Any:
        async def main() -> Any:
            host = ServiceHost(service, InProcessResolver(home=asyncio.get_running_loop()))
            await host.start()
            try:
                return await asyncio.wait_for(scenario(HostedStreams(host)), 20)
            finally:
                await host.stop()

        return asyncio.run(main())

    return run
