"""Dependencies behind a transport: what a worker process does, with two hosts in one loop."""

import asyncio
import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

import trilith
from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import NotFound, ServiceError, TrilithError
from trilith.service import InProcessResolver, RemoteServiceCaller, ServiceCall, ServiceHost, spec_of


@dataclasses.dataclass
class Line:
    text: str
    box: NDArray[np.float32]


@trilith.service
class Reader:
    @trilith.api(batch=trilith.Batch(max_size=4))
    async def read(self, crops: list[np.ndarray]) -> list[Line]:
        return [Line(f"{trilith.context().request_id} {crop.sum()}", np.float32([1])) for crop in crops]

    @trilith.api
    def add(self, a: int, *, b: int = 1) -> int:
        return a + b

    @trilith.api
    def fail(self) -> None:
        raise ValueError("secret")


@trilith.service
class Root:
    reader = trilith.depends(Reader)

    @trilith.api
    async def read(self, x: np.ndarray) -> list[str]:
        lines = await asyncio.gather(self.reader.read(x), self.reader.read(crops=x + 1))
        assert all(isinstance(line, Line) and line.box.dtype == np.float32 for line in lines)
        return [line.text for line in lines]

    @trilith.api
    def read_in_thread(self, x: np.ndarray) -> list[str]:
        return [self.reader.read(x).text, str(self.reader.add(1, b=4))]

    @trilith.api
    async def fail(self) -> None:
        await self.reader.fail()

    @trilith.api
    async def wrong(self) -> None:
        await self.reader.add("text", c=1)

    @trilith.api
    async def unsendable(self) -> None:
        await self.reader.read(object())


class Loopback:
    """A resolver whose services are in another host, reached by bytes."""

    def __init__(self, inner: ServiceHost) -> None:
        self._inner = inner

    def service(self, spec):
        return RemoteServiceCaller(spec, self._send)

    def model(self, reference, placement):
        raise AssertionError

    async def _send(self, meta, buffers, context):
        answered = asyncio.get_running_loop().create_future()

        def done(outcome, results):
            if isinstance(outcome, TrilithError):
                answered.set_exception(outcome)
            else:
                answered.set_result((outcome, [memoryview(bytes(buffer)) for buffer in results]))

        inner = Context(request_id=meta.request_id, timeline=Timeline("service Reader", 2), deadline=context.deadline)
        self._inner.handle(ServiceCall(meta, [bytes(buffer) for buffer in buffers], inner, done))
        return await answered


@pytest.fixture
def call(hosted_type):
    def run(*args, **kwargs):
        async def main():
            inner = ServiceHost(spec_of(Reader), InProcessResolver())
            await inner.start()
            outer = ServiceHost(Root, Loopback(inner))
            await outer.start()
            try:
                return await hosted_type(outer).call(*args, **kwargs)
            finally:
                await outer.stop()
                await inner.stop()

        return asyncio.run(main())

    return run


def test_types_and_request_ids_travel(call):
    assert call("read", b'{"x": [1, 2]}').body == b'["r1 3","r1 5"]'
    assert call("read_in_thread", b'{"x": [1, 2]}').body == b'["r1 3","5"]'


def test_timelines_nest(call):
    timeline = Timeline.from_builtins(call("read", b'{"x": [1]}', trace=True).meta.timeline)
    assert [child.name for child in timeline.children] == ["call Reader.read"] * 2
    assert [child.children[0].name for child in timeline.children] == ["service Reader"] * 2


def test_errors_travel(call, caplog):
    with pytest.raises(ServiceError, match=r"^Reader.fail failed; see the server's log, request id r1$"):
        call("fail")
    with pytest.raises(ServiceError, match=r"Root.wrong failed"):
        call("wrong")
    assert "Root.wrong called Reader.add with an argument that it refuses: Reader.add: argument 'c'" in caplog.text
    with pytest.raises(ServiceError, match=r"Root.unsendable failed"):
        call("unsendable")
    assert "object cannot be sent to another service" in caplog.text


def test_an_unknown_method():
    async def main():
        await RemoteServiceCaller(spec_of(Reader), Loopback(None)._send).call("nothing", (), {})

    with pytest.raises(NotFound, match="service Reader has no method 'nothing'; it has read, add, fail"):
        asyncio.run(main())
