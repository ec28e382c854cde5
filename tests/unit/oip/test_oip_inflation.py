"""Compressed bodies: what they hold in all is bounded, and given back when their requests are over."""

import asyncio
import gzip
import json

import pytest
from oip_fakes import FLOATS, FakeHttpRequest, FakeRuntime

from trilith.core.request import InferResponse
from trilith.errors import InvalidInput, QueueFull
from trilith.runtime.protocol import OipHttp
from trilith.runtime.protocol.inflation import Inflation
from trilith.wire.oip_options import ProtocolOptions

PATH = "/v2/models/m/infer"


def test_what_is_held_is_bounded():
    async def main():
        inflation = Inflation(1000)
        body = gzip.compress(bytes(1000))
        held = [await inflation.inflate(body, b"gzip") for _ in range(8)]
        assert [len(each) for each in held] == [1000] * 8
        with pytest.raises(QueueFull, match="hold 8000 bytes"):
            await inflation.inflate(body, b"gzip")
        inflation.release(1000)
        await inflation.inflate(body, b"gzip")
        with pytest.raises(QueueFull):
            await inflation.inflate(body, b"gzip")

    asyncio.run(main())


def test_what_is_refused_is_not_held():
    async def main():
        inflation = Inflation(1000)
        for body in (gzip.compress(bytes(1001)), b"no gzip") * 20:
            with pytest.raises(InvalidInput):
                await inflation.inflate(body, b"gzip")
        await inflation.inflate(gzip.compress(bytes(1000)), b"gzip")

    asyncio.run(main())


@pytest.mark.parametrize("end", ["answered", "refused", "left"])
def test_a_request_gives_back_what_it_held(end):
    runtime = FakeRuntime()
    app = OipHttp(runtime, options=ProtocolOptions(max_body_bytes=150))
    tensor = {"name": "IN", "datatype": "FP32" if end != "refused" else "INT32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    body = gzip.compress(json.dumps({"inputs": [tensor]}).encode())

    async def one():
        request = FakeHttpRequest("POST", PATH, body, headers=[(b"content-encoding", b"gzip")])
        task = asyncio.get_running_loop().create_task(app(request))
        if end != "refused":
            await runtime.arrived.wait()
            runtime.arrived.clear()
        if end == "left":
            task.cancel()
            await asyncio.wait([task])
        elif end == "answered":
            runtime.submitted[-1][2](InferResponse(model="m", version="1", outputs={"OUT": FLOATS}))
            await task
            assert request.status == 200
        else:
            await task
            assert request.status == 400

    async def main():
        for _ in range(50):
            await one()

    asyncio.run(main())
