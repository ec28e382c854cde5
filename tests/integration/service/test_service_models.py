"""`trilith.model` with no server: the runtime runs in this process, for loops and for threads."""

import asyncio

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import trilith
from trilith.errors import InvalidInput, SetupError
from trilith.service import InProcessResolver, ServiceHost


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """A model that gives x + y and x - y, in a `models/` folder of the current one."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y", "sum", "diff")]
    nodes = [helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Sub", ["x", "y"], ["diff"])]
    graph = helper.make_graph(nodes, "sums", tensors[:2], tensors[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder = tmp_path / "models" / "sums" / "1"
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    monkeypatch.chdir(tmp_path)


@trilith.service
class Sums:
    model = trilith.model("sums")

    @trilith.api
    async def total(self, x: list[float]) -> list[float]:
        array = np.float32([x])
        added, _ = await self.model(array, y=array)
        return added[0].tolist()

    @trilith.api
    def total_in_thread(self, x: list[float]) -> list[float]:
        array = np.float32([x])
        return self.model.infer({"x": array, "y": array})["sum"][0].tolist()


def test_from_a_loop():
    async def main():
        service = Sums()
        assert await service.total([1, 2]) == [2, 4]
        assert [spec.name for spec in service.model.inputs] == ["x", "y"]
        assert [spec.name for spec in service.model.outputs] == ["sum", "diff"]
        with pytest.raises(InvalidInput, match="model sums takes 2 arrays"):
            await service.model(1, 2, 3)
        with pytest.raises(InvalidInput, match="input x is given by position and by name"):
            await service.model(np.float32([[1, 2]]), x=np.float32([[1, 2]]))

    asyncio.run(main())


def test_without_a_loop():
    service = Sums()
    assert [spec.name for spec in service.model.inputs] == ["x", "y"]
    assert service.total_in_thread([1, 2]) == [2, 4]


def test_a_host_prepares_its_models():
    async def main():
        host = ServiceHost(Sums, InProcessResolver())
        await host.start()
        names = [spec.name for spec in host.instance.model.inputs]
        result = await asyncio.to_thread(host.instance.total_in_thread, [1.0, 2.0])
        await host.stop()
        return names, result

    assert asyncio.run(main()) == (["x", "y"], [2, 4])


def test_a_model_that_cannot_be_loaded_says_why_in_process(tmp_path):
    (tmp_path / "models" / "sums" / "1" / "model.onnx").write_bytes(b"no model")
    service = Sums()
    with pytest.raises(SetupError, match="sums"):
        asyncio.run(service.total([1, 2]))
    with pytest.raises(SetupError, match="sums"):
        service.total_in_thread([1, 2])
