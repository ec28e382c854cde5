"""`trilith.model` with no server: the runtime runs in this process, for loops and for threads."""

import asyncio
import gc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import trilith
from trilith.errors import InvalidInput, SetupError
from trilith.service import InProcessResolver, ServiceHost, local_models
from trilith.service.local_models import LocalModel


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


def save_product(path, factor):
    """y = x * factor"""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
    factors = helper.make_tensor("f", TensorProto.FLOAT, [1], [factor])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "f"], ["y"])], "product", *([each] for each in tensors))
    graph.initializer.append(factors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True)
    onnx.save(model, path)


def test_models_of_one_name_in_several_places(tmp_path):
    """Each caller gets the answers of its own one, whichever was loaded last; who is gone makes room."""
    factors = {name: float(at) for at, name in enumerate(("one", "two", "three", "four"), 2)}
    for name, factor in factors.items():
        save_product(tmp_path / name / "models" / "product" / "1" / "model.onnx", factor)

    async def main():
        callers = {name: LocalModel("product", tmp_path / name, ()) for name in ("one", "two", "three")}
        x = np.ones((1, 2), np.float32)

        async def ask(name):
            outputs = await callers[name].infer({"x": x})
            return name, outputs["y"][0, 0]

        asked = [*callers] * 3
        assert dict(await asyncio.gather(*map(ask, asked))) == {name: factors[name] for name in callers}
        for name in asked:
            assert await ask(name) == (name, factors[name])
        [shared] = local_models._shared
        count = len(shared._runtimes)
        del callers["two"]
        gc.collect()
        callers["four"] = LocalModel("product", tmp_path / "four", ())
        for name in (*callers, *callers):
            assert await ask(name) == (name, factors[name])
        assert len(shared._runtimes) == count

    asyncio.run(main())
