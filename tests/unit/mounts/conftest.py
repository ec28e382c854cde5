"""A hosted service whose mounts a test asks, without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import TrilithError
from trilith.net.transport import Window
from trilith.service import InProcessResolver, ServiceHost, StreamServiceCall
from trilith.service.mounts import execution
from trilith.testing.streams import MemoryStream
from trilith.wire.calls import CallMeta, ResultMeta
from trilith.wire.exchange import EXCHANGE_CONTENT_TYPE, ExchangeHead, pack_head, unpack_answer


class Asked:
    """One exchange: `port` has its items, `end` its result."""

    def __init__(self, call: StreamServiceCall, port: MemoryStream, end: asyncio.Future[Any]) -> None:
        self.call = call
        self.port = port
        self.end = end

    async def whole(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Status, headers and body of the answer, however it was sent."""
        body = b""
        while not self.end.done() or self.port.sent:
            body += b"".join(self.port.take(100))
            await asyncio.sleep(0.001)
        meta, buffers = await self.end
        found = unpack_answer(self.port.metas[0]) if self.port.metas else None
        if found is None:
            found = meta.status, [(a.encode("latin-1"), b.encode("latin-1")) for a, b in meta.headers]
        return *found, body + b"".join(buffers)

    async def pieces(self, count: int) -> list[bytes]:
        """Takes so many items, as they come."""
        found: list[bytes] = []
        while len(found) < count:
            found += self.port.take(count - len(found))
            await asyncio.sleep(0.001)
        return found


class HostedMounts:
    def __init__(self, host: ServiceHost) -> None:
        self.host = host

    def ask(
        self,
        mount: str = "/ui",
        path: str = "/ui/x",
        *,
        method: str = "GET",
        headers: tuple[tuple[bytes, bytes], ...] = (),
        body: bytes | None = b"",
        query: bytes = b"",
        window: Window | None = None,
        deadline: float | None = None,
        **head: Any,
    ) -> Asked:
        """`body`: None when it comes in pieces."""
        end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(outcome: ResultMeta | TrilithError, buffers: Any) -> None:
            if isinstance(outcome, TrilithError):
                end.set_exception(outcome)
            else:
                end.set_result((outcome, [bytes(buffer) for buffer in buffers]))

        asked = ExchangeHead(
            method=method,
            raw_path=path.encode(),
            root_path=mount.rstrip("/"),
            query=query,
            headers=headers,
            client=("10.0.0.1", 1234),
            server=("10.0.0.2", 80),
            scheme="http",
            http_version="1.1",
            whole=body is not None,
            **head,
        )
        meta = CallMeta(self.host.spec.name, mount, EXCHANGE_CONTENT_TYPE, "r1")
        context = Context(request_id="r1", timeline=Timeline("service", 2), deadline=deadline)
        port = MemoryStream(window)
        call = StreamServiceCall(meta, [pack_head(asked), body or b""], context, done, port=port)
        self.host.handle(call)
        return Asked(call, port, end)

    async def idle(self) -> None:
        """Waits until no exchange holds a place."""
        for _ in range(10_000):
            if not self.host.in_flight:
                return
            await asyncio.sleep(0.001)
        pytest.fail("an exchange still holds its place")


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment that applications have to end by themselves, so short that tests need not wait for it."""
    monkeypatch.setattr(execution, "_GRACE_S", 0.05)


@pytest.fixture
def mounted() -> Callable[..., Any]:
    """Runs a scenario against a hosted service."""

    def run(service: Any, scenario: Callable[[HostedMounts], Any], **options: Any) -> Any:
        async def main() -> Any:
            host = ServiceHost(service, InProcessResolver(home=asyncio.get_running_loop()), **options)
            await host.start()
            try:
                return await asyncio.wait_for(scenario(HostedMounts(host)), 20)
            finally:
                await host.stop()

        return asyncio.run(main())

    return run
