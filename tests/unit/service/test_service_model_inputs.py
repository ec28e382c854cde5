"""Lists become what the model takes, arrays stay what they are, and no value changes."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trilith.core.model import ModelSignature
from trilith.core.tensor import NUMPY_OF, DataType, TensorSpec
from trilith.errors import Draining, InvalidInput
from trilith.runtime import Runtime
from trilith.service import ModelProxy
from trilith.service.model_inputs import are_arrays, as_arrays


def signature(datatype):
    spec = TensorSpec(name="x", datatype=datatype, shape=(-1, -1))
    return ModelSignature(inputs=(spec,), outputs=(spec,), metadata={}, max_batch_size=0)


class Strict:
    """A model that takes FP32 alone, and says so as the runtime does."""

    async def signature(self):
        return signature(DataType.FP32)

    async def infer(self, inputs):
        if inputs["x"].dtype != np.float32:
            raise InvalidInput("inference input 'x' data-type is 'FP64', but model 'm' expects 'FP32'")
        return {"y": inputs["x"] * 2}


def call(value):
    return asyncio.run(ModelProxy("m", Strict(), None)._call((value,), {}))


def test_a_list_is_an_array_of_the_models_datatype():
    found = call([[1, 2.5], [3, 4]])
    assert found.dtype == np.float32
    assert found.tolist() == [[2, 5], [6, 8]]


def test_an_array_of_another_type_is_refused_with_what_to_write():
    with pytest.raises(InvalidInput, match=r"expects 'FP32'; give x\.astype\(np\.float32\)$"):
        call(np.zeros((1, 2)))


def test_a_picture_is_an_array():
    found = as_arrays("m", signature(DataType.UINT8), {"x": Image.new("L", (3, 2), 7)})["x"]
    assert (found.dtype, found.shape, int(found[0, 0])) == (np.uint8, (2, 3), 7)


NOT_FINITE = [float("nan"), float("inf")]
INTEGERS = [DataType.BOOL, DataType.UINT8, DataType.INT8, DataType.INT32, DataType.INT64]


@given(st.sampled_from(INTEGERS), st.lists(st.one_of(st.integers(-300, 300), st.floats(-3, 300)), max_size=4))
def test_no_value_changes(datatype, values):
    least, most = (
        (0, 1) if datatype is DataType.BOOL else (np.iinfo(NUMPY_OF[datatype]).min, np.iinfo(NUMPY_OF[datatype]).max)
    )
    if not all(float(value).is_integer() and least <= value <= most for value in values):
        with pytest.raises(InvalidInput):
            as_arrays("m", signature(datatype), {"x": values})
        return
    found = as_arrays("m", signature(datatype), {"x": values})["x"]
    assert found.dtype == NUMPY_OF[datatype]
    assert found.tolist() == values


@pytest.mark.parametrize(
    ("datatype", "value", "message"),
    [
        (DataType.FP32, [[1, 2], [3]], "lists of equal lengths"),
        (DataType.FP32, {"a": 1}, "lists of numbers or texts, got dict"),
        (DataType.FP32, ["a"], "x is FP32, and the list given holds something else"),
        (DataType.INT64, [1.5], "x is INT64"),
        (DataType.INT64, NOT_FINITE, "x is INT64"),
        (DataType.UINT8, [256], "x is UINT8"),
        (DataType.BF16, [1.0], "raw 16 bits"),
    ],
)
def test_what_is_no_array_of_that_kind_is_refused(datatype, value, message):
    with pytest.raises(InvalidInput, match=message):
        as_arrays("m", signature(datatype), {"x": value})


def test_texts_and_unknown_names_are_left_to_the_model():
    assert as_arrays("m", signature(DataType.BYTES), {"x": ["a", "b"]})["x"].dtype.kind == "U"
    assert as_arrays("m", signature(DataType.FP32), {"z": [1]})["z"].tolist() == [1]
    assert are_arrays({"x": np.zeros(1)})


def test_a_runtime_that_was_not_entered_says_so():
    with pytest.raises(Draining, match="enter it with `async with Runtime"):
        Runtime("models").model("x")
