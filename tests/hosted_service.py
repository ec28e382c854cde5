"""A service hosted in the test's own loop, called with bytes as a worker would call it."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import TrilithError
from trilith.service import InProcessResolver, ServiceCall, ServiceHost
from trilith.wire.calls import CallMeta, ResultMeta

JSON = "application/json"


@dataclasses.dataclass
class Answer:
    meta: ResultMeta
    buffers: list[bytes]

    @property
    def body(self) -> bytes:
        [body] = self.buffers
        return body


class Hosted:
    def __init__(self, host: ServiceHost) -> None:
        self.host = host

    def make(
        self,
        method: str,
        body: bytes | list[Any] = b"{}",
        content_type: str = JSON,
        *,
        accept: str | None = None,
        trace: bool = False,
        deadline: float | None = None,
    ) -> tuple[ServiceCall, asyncio.Future[Answer]]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(outcome: ResultMeta | TrilithError, buffers: Any) -> None:
            if isinstance(outcome, TrilithError):
                future.set_exception(outcome)
            else:
                future.set_result(Answer(outcome, [bytes(buffer) for buffer in buffers]))

        meta = CallMeta(self.host.spec.name, method, content_type, "r1", {"accept": accept} if accept else None, trace)
        context = Context(
            request_id="r1", timeline=Timeline("service", 2), deadline=deadline, headers=meta.headers or {}
        )
        return ServiceCall(meta, body if isinstance(body, list) else [body], context, done), future

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Answer:
        call, future = self.make(method, *args, **kwargs)
        self.host.handle(call)
        return await future

    async def body(self, *args: Any, **kwargs: Any) -> bytes:
        return (await self.call(*args, **kwargs)).body

    async def idle(self) -> None:
        """Waits until no call holds a slot."""
        for _ in range(10_000):
            if not self.host.in_flight:
                return
            await asyncio.sleep(0.001)
        pytest.fail("a call still holds a slot")

    async def batch(self, method: str, bodies: list[bytes], content_type: str = JSON) -> list[Any]:
        pairs = [self.make(method, body, content_type) for body in bodies]
        self.host.handle_batch([call for call, _ in pairs])
        return await asyncio.gather(*(future for _, future in pairs), return_exceptions=True)


Scenario = Callable[[Hosted], Awaitable[Any]]


def run_hosted(service: Any, scenario: Scenario, *, debug: bool = False) -> Any:
    """Runs a scenario against a hosted service."""

    async def main() -> Any:
        host = ServiceHost(service, InProcessResolver(home=asyncio.get_running_loop()), debug=debug)
        await host.start()
        try:
            return await asyncio.wait_for(scenario(Hosted(host)), 20)
        finally:
            await host.stop()

    return asyncio.run(main())


def call_hosted(service: Any, *args: Any, debug: bool = False, **kwargs: Any) -> Any:
    """The answer to one call of a service."""
    return run_hosted(service, lambda hosted: hosted.call(*args, **kwargs), debug=debug)
