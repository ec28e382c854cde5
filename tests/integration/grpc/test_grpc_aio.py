"""Against grpcio's asyncio client. One loop for all: grpc.aio dislikes a second one in a process."""

import asyncio

import grpc
import grpc.aio
import pytest

from trilith.wire.grpc_status import GrpcStatus


def test_asyncio_client(serve):
    server = serve()

    async def main():
        async with grpc.aio.insecure_channel(server.target) as channel:
            await whole_answers(channel)
            await cancelling(channel, server)
            await failing(channel)

    asyncio.run(main())
    outcomes = server.statistics.outcomes
    assert outcomes[GrpcStatus.OK] == 503
    assert outcomes[GrpcStatus.CANCELLED] in (1, 2)  # at a deadline the client may be the first to give up


async def whole_answers(channel):
    call = channel.unary_unary("/s/Task")
    assert await asyncio.gather(*(call(b"%d" % number) for number in range(500))) == [b"%d" % n for n in range(500)]
    assert await call(b"") == b""
    assert await call(b"x" * 3_000_000) == b"x" * 3_000_000
    answer = call(b"x", metadata=(("x-key", "1"), ("x-key", "2")))
    assert ("x-served-by", "task") in tuple(await answer.trailing_metadata())


async def cancelling(channel, server):
    call = channel.unary_unary("/s/Sleep")(b"")
    assert await asyncio.to_thread(server.app.started.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(server.app.cancelled.wait, 5)


async def failing(channel):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/s/Hold")(b"", timeout=0.05)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/s/Full")(b"")
    assert caught.value.details() == "the queue of 10 is full: try again"
