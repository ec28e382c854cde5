"""Programs written for Triton: `tritonclient`'s asyncio clients, many requests at once."""

import asyncio

import numpy as np
import pytest
import tritonclient.grpc.aio
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException


@pytest.mark.parametrize(("module", "field"), [(tritonclient.http.aio, "http"), (tritonclient.grpc.aio, "grpc")])
def test_concurrent_requests_and_an_error(server, module, field):
    async def main():
        async with module.InferenceServerClient(getattr(server, field)) as client:
            assert await client.is_server_ready()

            async def one(number):
                array = np.full((2, 4), number, np.float32)
                tensor = module.InferInput("INPUT0", [2, 4], "FP32")
                tensor.set_data_from_numpy(array)
                result = await client.infer("batched", [tensor], request_id=str(number))
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)

            await asyncio.gather(*map(one, range(50)))
            with pytest.raises(InferenceServerException, match="unknown model"):
                await client.infer("unknown", [])

    asyncio.run(main())


def test_answers_that_are_compressed_because_the_client_says_so(server):
    """aiohttp accepts compressed answers without being asked to."""

    async def main():
        async with tritonclient.http.aio.InferenceServerClient(server.http) as client:
            array = np.arange(50_000, dtype=np.float32)
            tensor = tritonclient.http.aio.InferInput("INPUT0", [array.size], "FP32")
            tensor.set_data_from_numpy(array)
            result = await client.infer("identity_fp32", [tensor])
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)

    asyncio.run(main())
