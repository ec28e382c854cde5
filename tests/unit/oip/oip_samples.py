"""Signatures and tensors that the codec tests share."""

import math

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.extra import numpy as npst

from trilith.core.tensor import NUMPY_OF, DataType, TensorSpec
from trilith.wire.oip_tensor import Signature

few = settings(max_examples=25)
"""For properties that run once a datatype."""

JSON_TYPES = [datatype for datatype in DataType if datatype not in (DataType.FP16, DataType.BF16)]


def identity_signature(datatype=DataType.FP32, model="m", dims=(-1,), max_batch_size=0):
    return Signature.of(
        model,
        [TensorSpec(name="IN", datatype=datatype, shape=dims)],
        [TensorSpec(name="OUT", datatype=datatype, shape=dims)],
        max_batch_size,
    )


def tensors(datatype, *, text_only=False):
    """Arrays of a datatype, all shapes up to three dimensions, zero-sized ones included."""
    shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    if datatype is DataType.BYTES:
        elements = st.text(max_size=8).map(str.encode) if text_only else st.binary(max_size=8)
        return shapes.flatmap(
            lambda shape: st.lists(elements, min_size=math.prod(shape), max_size=math.prod(shape)).map(
                lambda values: object_tensor(values, shape)
            )
        )
    return npst.arrays(NUMPY_OF[datatype], shapes)


def object_tensor(values, shape):
    array = np.empty(len(values), np.object_)
    array[:] = values
    return array.reshape(shape)


def same(left, right):
    """Equal in shape, dtype and every bit (NaN payloads aside)."""
    assert left.shape == right.shape
    assert left.dtype == right.dtype
    if left.dtype.kind == "f":
        np.testing.assert_array_equal(left, right)
        assert (np.signbit(left) == np.signbit(right))[~np.isnan(left)].all()
    else:
        assert left.tolist() == right.tolist()
