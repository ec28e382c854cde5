"""Clients see one shape of a tensor, its model another: no element is lost, none changes its place."""

import asyncio
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig, ModelError
from trilith.runtime import InferRequest, Runtime, RuntimeConfig
from trilith.runtime.reshaping import Reshape
from trilith.testing.backends import EchoBackend, kind_of


@st.composite
def reshapes(draw):
    """Two shapes of the same elements: the same free dimensions, and factors in any grouping between them."""
    factors = draw(st.lists(st.integers(1, 4), max_size=4))
    free = draw(st.integers(0, 3))

    def shape():
        groups = [math.prod(part) for part in _parts(draw, factors)]
        for _ in range(free):
            groups.insert(draw(st.integers(0, len(groups))), -1)
        return tuple(groups)

    return Reshape(shape(), shape())


def _parts(draw, factors):
    cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=3)))
    return [factors[start:end] for start, end in zip([0, *cuts], [*cuts, len(factors)], strict=True)]


@given(reshapes(), st.data())
def test_there_and_back(reshape, data):
    dims = tuple(data.draw(st.integers(0, 5)) if size == -1 else size for size in reshape.outside)
    inside = reshape.inward(dims)
    assert math.prod(inside) == math.prod(dims)
    assert [size for size, wanted in zip(inside, reshape.inside, strict=True) if wanted == -1] == [
        size for size, wanted in zip(dims, reshape.outside, strict=True) if wanted == -1
    ]
    assert reshape.outward(inside) == dims


@given(st.lists(st.sampled_from([-1, 1, 2, 3, 6]), max_size=3), st.lists(st.sampled_from([-1, 1, 2, 3, 6]), max_size=3))
def test_what_does_not_hold_the_same_elements_is_refused(outside, inside):
    fits = outside.count(-1) == inside.count(-1) and math.prod(map(abs, outside)) == math.prod(map(abs, inside))
    try:
        Reshape(tuple(outside), tuple(inside))
    except InvalidConfig:
        assert not fits
    else:
        assert fits


def test_an_output_of_another_shape_has_no_place_outside():
    assert Reshape((4,), (2, 2)).outward((2, 3)) is None
    assert Reshape((4,), (2, 2)).outward((4,)) is None
    assert Reshape((1,), ()).outward(()) == (1,)


def serving(tmp_path, config, shape, check):
    backend = EchoBackend(inputs=[TensorSpec(name="x", datatype=DataType.FP32, shape=shape)])

    async def main():
        async with Runtime(tmp_path, config=RuntimeConfig(backends={"echo": kind_of(backend)})) as runtime:
            assert runtime.ready, runtime.models()
            await check(runtime)

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.pbtxt").write_text(f'backend: "echo" {config}')
    asyncio.run(main())


@pytest.mark.parametrize(
    ("dims", "inside", "model", "given"),
    [
        ("[ 1 ]", "[ ]", (-1,), (2, 1)),
        ("[ 4 ]", "[ 2, 2 ]", (-1, 2, 2), (2, 4)),
        ("[ -1, 2 ]", "[ 1, -1, 2 ]", (-1, 1, -1, 2), (2, 3, 2)),
        ("[ 1, -1, -1 ]", "[ -1, -1 ]", (-1, -1, -1), (3, 1, 5, 2)),
    ],
)
def test_clients_and_the_model_each_have_their_shape(tmp_path, dims, inside, model, given):
    tensor = f"data_type: TYPE_FP32 dims: {dims} reshape {{ shape: {inside} }}"
    config = f'max_batch_size: 8 input {{ name: "x" {tensor} }} output {{ name: "y" {tensor} }} dynamic_batching {{ }}'
    values = np.arange(math.prod(given), dtype=np.float32).reshape(given)

    async def check(runtime):
        handle = runtime.model("m")
        assert handle.inputs[0].shape == handle.outputs[0].shape
        assert len(handle.inputs[0].shape) == len(given)
        assert handle.config_proto().input[0].HasField("reshape")
        answers = await asyncio.gather(
            *(runtime.infer(InferRequest(model="m", inputs={"x": values + at})) for at in range(3))
        )
        for at, answer in enumerate(answers):
            np.testing.assert_array_equal(answer.outputs["y"], values + at)

    serving(tmp_path, config, model, check)


def test_an_output_that_does_not_fit_fails_its_request(tmp_path):
    config = """max_batch_size: 8 input { name: "x" dims: [ -1 ] }
    output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 2, 2 ] } }"""

    class Wrong(EchoBackend):
        def run(self, batch):
            return [np.zeros((batch.rows, 3, 2), np.float32) for _ in batch.outputs]

        def load(self):
            signature = super().load()
            output = TensorSpec(name="y", datatype=DataType.FP32, shape=(-1, -1, -1))
            return type(signature)(inputs=signature.inputs, outputs=(output,))

    async def main():
        async with Runtime(tmp_path, config=RuntimeConfig(backends={"echo": kind_of(Wrong())})) as runtime:
            with pytest.raises(ModelError, match=r"output 'y' has shape \[1, 3, 2\], and its reshape .* \[1, 2, 2\]"):
                await runtime.infer(InferRequest(model="m", inputs={"x": np.zeros((1, 2), np.float32)}))

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.pbtxt").write_text(f'backend: "echo" {config}')
    asyncio.run(main())
