"""A request is checked before it joins a batch, and the sentence says what was wrong."""

import numpy as np
import pytest

from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig, InvalidInput
from trilith.runtime import ModelSignature, ModelSpec
from trilith.runtime.signature import Offer, complete
from trilith.runtime.spec import DeclaredTensor
from trilith.runtime.validation import Validator


def tensor(name, *shape, datatype=DataType.FP32):
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def validator(*inputs, max_batch_size=4):
    return Validator("m", Offer(inputs=inputs, outputs=(tensor("y", -1, 2),), max_batch_size=max_batch_size))


def request(outputs=(), **inputs):
    return InferRequest(model="m", inputs=inputs, outputs=outputs)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def test_rows_and_shapes_of_what_fits():
    fixed = validator(tensor("x", -1, 3))
    admitted = fixed.admit(request(x=zeros(2, 3)))
    assert (admitted.rows, admitted.shape) == (2, None)
    free = validator(tensor("x", -1, 3, -1), tensor("z", -1, 2))
    assert free.admit(request(z=zeros(1, 2), x=zeros(1, 3, 7))).shape == ((3, 7),)
    whole = validator(tensor("x", -1), max_batch_size=0)
    assert whole.admit(request(x=zeros(9))).rows == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"q": zeros(1, 3), "z": zeros(1, 2)}, r"unexpected inference input 'q' for model 'm'"),
        ({"x": zeros(1, 3)}, r"expected 2 inputs but got 1 inputs for model 'm'. Got input\(s\) \['x'\], but missing"),
        ({}, r"missing required input\(s\) \['x','z'\]"),
        ({"x": zeros(1, 3, dtype="f8"), "z": zeros(1, 2)}, r"'x' data-type is 'FP64', but model 'm' expects 'FP32'"),
        ({"x": zeros(1, 3, dtype="c8"), "z": zeros(1, 2)}, r"'x' data-type is 'complex64'"),
        ({"x": zeros(1, 4), "z": zeros(1, 2)}, r"unexpected shape for input 'x' .* Expected \[-1,3\], got \[1,4\]"),
        ({"x": [[1.0]], "z": zeros(1, 2)}, r"input 'x' of model .* must be an array of numpy, got list: numpy.asarray"),
        ({"x": zeros(1, 2), "z": zeros(1, 2)}, r"Expected \[-1,3\], got \[1,2\]\.$"),
        ({"x": zeros(3), "z": zeros(1, 2)}, r"Expected \[-1,3\], got \[3\]\. NOTE: Setting a non-zero max_batch_size"),
        ({"x": zeros(1, 3), "z": zeros(2, 2)}, r"input 'z' batch size does not match other inputs for 'm'"),
        ({"x": zeros(5, 3), "z": zeros(5, 2)}, r"batch-size must be <= 4 for 'm'"),
        ({"x": zeros(0, 3), "z": zeros(0, 2)}, r"batch-size must be >= 1 for 'm'"),
        ({"x": zeros(1, 3), "z": zeros(1, 2), "outputs": ("q",)}, r"unexpected inference output 'q' for model 'm'"),
    ],
)
def test_what_does_not_fit_is_refused(given, says):
    with pytest.raises(InvalidInput, match=says):
        validator(tensor("x", -1, 3), tensor("z", -1, 2)).admit(request(**given))


def test_text_and_foreign_byte_order_are_understood():
    (array,) = validator(tensor("x", -1, 1, datatype=DataType.BYTES)).admit(request(x=np.array([["é"]]))).arrays
    assert array.tolist() == [["é".encode()]]
    (array,) = validator(tensor("x", -1, 1, datatype=DataType.BYTES)).admit(request(x=np.array([[b"e"]]))).arrays
    assert array.tolist() == [[b"e"]]
    (array,) = validator(tensor("x", -1, 3)).admit(request(x=np.ones((1, 3), ">f4"))).arrays
    assert array.dtype.isnative
    assert array.tolist() == [[1, 1, 1]]


def test_bf16_travels_as_its_bits():
    (array,) = validator(tensor("x", -1, 3, datatype=DataType.BF16)).admit(request(x=zeros(1, 3, dtype="u2"))).arrays
    assert array.dtype == np.uint16


FREE = ModelSignature(inputs=(tensor("x", -1, 3),), outputs=(tensor("y", -1, 2), tensor("z", -1, -1)))
FIXED = ModelSignature(inputs=(tensor("x", 1, 3),), outputs=(tensor("y", 1, 2),))


def spec(**fields):
    return ModelSpec(name="m", **fields)


def test_a_model_that_says_nothing_gets_its_own_signature():
    offer = complete(spec(), FREE)
    assert (offer.inputs, offer.outputs, offer.max_batch_size) == (FREE.inputs, FREE.outputs, 4)
    assert complete(spec(), FIXED).max_batch_size == 0
    assert complete(spec(max_batch_size=16), FREE).max_batch_size == 16
    assert complete(spec(max_batch_size=0), FREE).max_batch_size == 0


def test_dims_with_the_batch_dimension_mean_no_batching():
    offer = complete(spec(inputs=(DeclaredTensor(name="x", dims=(-1, 3)),)), FREE)
    assert offer.max_batch_size == 0
    offer = complete(spec(inputs=(DeclaredTensor(name="x", dims=(3,)),)), FREE)
    assert (offer.max_batch_size, offer.inputs[0].shape) == (4, (-1, 3))


def test_declared_outputs_are_the_only_ones_and_may_be_narrower():
    offer = complete(spec(outputs=(DeclaredTensor(name="z", dims=(7,)),)), FREE)
    assert offer.outputs == (tensor("z", -1, 7),)


@pytest.mark.parametrize(
    ("fields", "signature", "says"),
    [
        ({"max_batch_size": 2}, FIXED, r"max_batch_size: must be 0, got 2: tensor 'x' has shape \[1, 3\]"),
        ({"inputs": (DeclaredTensor(name="q"),)}, FREE, r"unexpected input 'q', the model's inputs are: x"),
        ({"outputs": (DeclaredTensor(name="q"),)}, FREE, r"unexpected output 'q'"),
        (
            {"inputs": (DeclaredTensor(name="x", datatype=DataType.INT8),)},
            FREE,
            r"input 'x': the configuration says INT8, the model says FP32",
        ),
        (
            {"inputs": (DeclaredTensor(name="x", dims=(3, 3, 3)),)},
            FREE,
            r"expects 2 dimensions .* specifies 4 .*dims must leave the batch dimension out",
        ),
        (
            {"inputs": (DeclaredTensor(name="x", dims=(3,)),), "max_batch_size": 0},
            FREE,
            r"dims must be the full shape",
        ),
        ({"inputs": (DeclaredTensor(name="x", dims=(4,)),)}, FREE, r"says shape \[-1, 4\], the model says \[-1, 3\]"),
        ({"inputs": (DeclaredTensor(name="x"), DeclaredTensor(name="x"))}, FREE, r"'x' is declared twice"),
    ],
)
def test_disagreements_are_found_when_loading(fields, signature, says):
    with pytest.raises(InvalidConfig, match=says):
        complete(spec(**fields), signature)
