"""What the gateway sends to a worker, answered without a connection."""

import asyncio
import functools
import gc
import time

import pytest

import trilith
from trilith.errors import Cancelled, InvalidInput, NotFound, ServiceError
from trilith.orchestration.engine import served_calls
from trilith.orchestration.engine.served_calls import ServedCalls
from trilith.service import InProcessResolver, ServiceHost
from trilith.wire.batches import FLAG_BATCH, BatchItem, answers_that_fit, decode_batch_result, encode_batch
from trilith.wire.calls import CallMeta, pack_meta, unpack_result
from trilith.wire.frames import RESULT, FrameLimits, encode_with_buffers

JSON = "application/json"
LIMITS = FrameLimits(max_frame_bytes=16_000, max_meta_bytes=4000, max_buffers=64)


@trilith.service
class Numbers:
    @trilith.api
    async def double(self, x: int) -> int:
        return 2 * x

    @trilith.api
    async def forever(self, x: int) -> int:
        await asyncio.get_running_loop().create_future()
        return x

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def triple(self, x: list[int]) -> list[int]:
        return [3 * value for value in x]

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def repeat(self, n: list[int]) -> list[str]:
        return ["x" * times for times in n]


class Incoming:
    """A call as a connection hands it over; `answer` is what came back."""

    def __init__(self, meta: bytes, buffers: list[bytes], flags: int = 0) -> None:
        self.meta = meta
        self.buffers = [memoryview(buffer) for buffer in buffers]
        self.flags = flags
        self.deadline = None
        self.received_at = 1.0
        self.on_cancel = None
        self.begun = False
        self.answer: asyncio.Future = asyncio.get_running_loop().create_future()

    def begin(self):
        self.begun = True

    def result(self, meta, buffers=()):
        self.answer.set_result((meta, [bytes(buffer) for buffer in buffers]))

    def result_in_one_frame(self, meta, buffers=()):
        encode_with_buffers(RESULT, 1, meta, buffers, LIMITS)
        self.result(meta, buffers)

    def fail(self, code, message):
        self.answer.set_result((code, message))

    def fail_error(self, error):
        self.fail(error.code, error.message)


def meta(method: str, trace: bool = False) -> bytes:
    return pack_meta(CallMeta("Numbers", method, JSON, "r1", None, trace))


def run(scenario):
    async def main():
        host = ServiceHost(Numbers, InProcessResolver(home=asyncio.get_running_loop()))
        await host.start()
        try:
            return await asyncio.wait_for(scenario(ServedCalls(host)), 20)
        finally:
            await host.stop()

    return asyncio.run(main())


async def ask(served, incoming):
    served.called(incoming)
    return await incoming.answer


@pytest.mark.parametrize("trace", [False, True])
def test_a_call(trace):
    async def scenario(served):
        incoming = Incoming(meta("double", trace), [b'{"x": 4}'])
        answer = await ask(served, incoming)
        assert incoming.begun
        assert incoming.on_cancel is None
        return answer

    raw, buffers = run(scenario)
    assert buffers == [b"8"]
    result = unpack_result(raw)
    assert result.content_type == JSON
    assert (result.timeline is not None) == trace


def test_errors_keep_their_code():
    async def scenario(served):
        wrong = [Incoming(meta("double"), [b"{}"]), Incoming(meta("half"), [b"{}"]), Incoming(b"\xc1", [])]
        return [(await ask(served, incoming))[0] for incoming in wrong]

    assert run(scenario) == [InvalidInput.code, NotFound.code, InvalidInput.code]


def test_a_cancelled_call_is_answered_when_its_work_has_stopped():
    async def scenario(served):
        incoming = Incoming(meta("forever"), [b'{"x": 4}'])
        served.called(incoming)
        await asyncio.sleep(0)
        incoming.on_cancel()
        assert not incoming.answer.done()
        return await incoming.answer

    assert run(scenario)[0] == Cancelled.code


def _batch():
    items = [BatchItem(meta=meta("triple"), buffer_count=1, deadline=time.monotonic() + 60) for _ in range(3)]
    return Incoming(encode_batch(items), [b'{"x": 1}', b'{"x": "a"}', b'{"x": 3}'], FLAG_BATCH)


def test_a_batch():
    raw, buffers = run(lambda served: ask(served, _batch()))
    assert [item.ok for item in decode_batch_result(raw, len(buffers))] == [True, False, True]
    assert buffers == [b"3", b"9"]


def test_an_answer_that_is_too_large_for_its_batch_fails_alone(monkeypatch):
    monkeypatch.setattr(served_calls, "answers_that_fit", functools.partial(answers_that_fit, limits=LIMITS))
    items = [BatchItem(meta=meta("repeat"), buffer_count=1, deadline=time.monotonic() + 60) for _ in range(3)]
    bodies = [b'{"n": 9}', b'{"n": 9999}', b'{"n": 8000}']
    raw, buffers = run(lambda served: ask(served, Incoming(encode_batch(items), bodies, FLAG_BATCH)))
    results = decode_batch_result(raw, len(buffers))
    assert [result.ok for result in results] == [True, False, True]
    assert [len(buffer) - 2 for buffer in buffers] == [9, 8000], "quotes are two"
    assert results[1].code == ServiceError.code
    assert "10001 bytes do not go with the other answers of its batch" in results[1].message


def test_calls_leave_nothing_for_the_cyclic_collector():
    async def scenario(served):
        async def both():
            await ask(served, Incoming(meta("double"), [b'{"x": 4}']))
            await ask(served, _batch())

        await both()
        gc.collect()
        for _ in range(20):
            await both()
        return gc.collect()

    gc.disable()
    try:
        assert run(scenario) < 20
    finally:
        gc.enable()
