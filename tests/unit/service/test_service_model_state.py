"""A model that its node could not load: its callers hear that, not that their arrays are wrong."""

import asyncio

import numpy as np
import pytest

import trilith
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import NoReadyReplica
from trilith.service import InProcessResolver, ModelSignature, ServiceHost

LOADED = ModelSignature(
    inputs=(TensorSpec(name="x", datatype=DataType.FP32, shape=(-1, 1)),),
    outputs=(TensorSpec(name="y", datatype=DataType.FP32, shape=(-1, 1)),),
    metadata={"labels": "a"},
)


class Node(InProcessResolver):
    """A node with one model, which may be loaded later."""

    loaded = False

    def model(self, reference, placement):
        return self

    async def signature(self):
        return LOADED if self.loaded else ModelSignature(inputs=(), outputs=())

    async def infer(self, inputs):
        assert self.loaded
        return {"y": inputs["x"] + 1}


@trilith.service
class Adder:
    model = trilith.model("adder")

    @trilith.api
    async def add(self, x: float) -> float:
        return float((await self.model(np.float32([[x]])))[0, 0])

    @trilith.api
    def labels(self) -> str:
        return self.model.metadata["labels"]

    @trilith.api
    async def other(self) -> str:
        return "works"


def test_a_replica_starts_without_its_model_and_says_so_to_those_who_need_it():
    async def main():
        node = Node()
        host = ServiceHost(Adder, node)
        await host.start()
        adder = host.instance
        assert await adder.other() == "works"
        for call in (adder.add(1.0), asyncio.to_thread(adder.labels)):
            with pytest.raises(NoReadyReplica, match=r"^model adder is not loaded; see the server's log$"):
                await call
        node.loaded = True
        assert await adder.add(1.0) == 2.0
        assert await asyncio.to_thread(adder.labels) == "a"
        await host.stop()

    asyncio.run(main())
