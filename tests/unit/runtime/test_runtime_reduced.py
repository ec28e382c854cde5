"""Outputs that are reduced where they are made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime import Batch, ModelSignature
from trilith.runtime.backends.reduced import ReducedBackend, argmax
from trilith.runtime.model_yaml import load_model_yaml
from trilith.testing.backend_contract import BACKEND_CHECKS


class Scores:
    """Two outputs: scores [rows, steps, 5] and the input itself."""

    concurrent = True
    inline = True

    def __init__(self):
        self.asked = []
        self.closed = False

    def load(self):
        return ModelSignature(
            inputs=(TensorSpec(name="x", datatype=DataType.FP32, shape=(-1, -1)),),
            outputs=(
                TensorSpec(name="scores", datatype=DataType.FP32, shape=(-1, -1, 5)),
                TensorSpec(name="same", datatype=DataType.FP32, shape=(-1, -1)),
            ),
            metadata={"a": "b"},
        )

    def enter_thread(self):
        pass

    def run(self, batch):
        self.asked.append(batch.outputs)
        x = batch.inputs["x"]
        made = {"scores": np.sin(x[..., None] * np.arange(5, dtype=np.float32)), "same": x}
        return [made[name] for name in batch.outputs]

    def close(self):
        self.closed = True


@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=4), elements=st.floats(-9, 9, width=32)))
def test_argmax_is_the_largest_and_its_first_place(values):
    index, value = argmax(values)
    assert index.dtype == np.int32
    np.testing.assert_array_equal(value, values.max(axis=-1))
    np.testing.assert_array_equal(index, values.argmax(axis=-1))


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_it_is_a_backend(check):
    check(lambda: ReducedBackend(Scores(), {"scores": "argmax"}))


def test_signature_and_outputs():
    inner = Scores()
    backend = ReducedBackend(inner, {"scores": "argmax"})
    signature = backend.load()
    assert [(spec.name, spec.datatype, spec.shape) for spec in signature.outputs] == [
        ("scores.index", DataType.INT32, (-1, -1)),
        ("scores.value", DataType.FP32, (-1, -1)),
        ("same", DataType.FP32, (-1, -1)),
    ]
    assert signature.metadata == {"a": "b"}
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = ("same", "scores.value", "scores.index")
    request = InferRequest(model="m", inputs={"x": x})
    same, value, index = backend.run(Batch(inputs={"x": x}, outputs=wanted, rows=2, requests=[request]))
    scores = np.sin(x[..., None] * np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(value, scores.max(axis=-1))
    np.testing.assert_array_equal(index, scores.argmax(axis=-1))
    assert inner.asked == [("same", "scores")]  # each output of the model once
    backend.close()
    assert inner.closed


def test_what_cannot_be_reduced_is_named():
    with pytest.raises(SetupError, match="'nothing'; the model has scores, same"):
        ReducedBackend(Scores(), {"nothing": "argmax"}).load()


def test_model_yaml_offers_what_is_left(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text("outputs:\n  - name: scores\n    reduce: argmax\n  - name: same\n")
    spec = load_model_yaml(path, "m")
    assert [output.name for output in spec.outputs] == ["scores.index", "scores.value", "same"]
    assert spec.reductions == {"scores": "argmax"}
    path.write_text("outputs: [{name: scores, reduce: softmax}]\n")
    with pytest.raises(InvalidConfig, match="reduce"):
        load_model_yaml(path, "m")
    path.write_text("outputs: [{name: scores, reduce: argmax, dims: [5]}]\n")
    with pytest.raises(InvalidConfig, match="stands alone"):
        load_model_yaml(path, "m")
