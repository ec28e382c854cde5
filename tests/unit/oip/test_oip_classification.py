"""The classification extension: order, labels, shapes, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oip_samples import object_tensor

from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidInput
from trilith.wire.oip_classification import MAX_ELEMENTS, classified
from trilith.wire.oip_tensor import Signature


def classes(array, count, *, datatype=DataType.FP32, batched=True, labels=()):
    spec = TensorSpec(name="OUT", datatype=datatype, shape=(-1, -1) if batched else (-1,))
    signature = Signature.of("m", [], [spec], 8 if batched else 0, {"OUT": labels})
    return classified({"OUT": array, "OTHER": array}, {"OUT": count}, signature)


def test_each_row_has_its_classes():
    found = classes(np.array([[0.1, 0.7, 0.2], [3.0, 1.0, 2.0]], np.float32), 2, labels=("cat", "dog"))["OUT"]
    assert found.tolist() == [[b"0.700000:1:dog", b"0.200000:2"], [b"3.000000:0:cat", b"2.000000:2"]]


def test_without_a_batch_dimension_all_is_one_row():
    found = classes(np.array([[1, 5], [9, 9]], np.int64), 9, datatype=DataType.INT64, batched=False)["OUT"]
    assert found.tolist() == [b"9:2", b"9:3", b"5:1", b"1:0"]


def test_other_outputs_stay():
    array = np.ones((1, 3), np.float32)
    assert classes(array, 1)["OTHER"] is array


def test_bfloat16_and_nan():
    bits = (np.array([[1.0, 2.0, np.nan]], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    assert classes(bits, 2, datatype=DataType.BF16)["OUT"].tolist() == [[b"2.000000:1", b"1.000000:0"]]
    half = np.array([[0.5, -np.inf]], np.float16)
    assert classes(half, 2, datatype=DataType.FP16)["OUT"].tolist() == [[b"0.500000:0", b"-inf:1"]]


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_to_classify(shape):
    assert classes(np.ones(shape, np.float32), 2)["OUT"].shape == (shape[0], min(2, shape[1]))


@given(st.lists(st.integers(0, 255), min_size=1, max_size=30), st.integers(1, 40))
def test_the_greatest_come_first_and_equals_in_order(values, count):
    row = np.array([values], np.uint8)
    found = classes(row, count, datatype=DataType.UINT8)["OUT"].tolist()[0]
    expected = sorted(enumerate(values), key=lambda pair: (-pair[1], pair[0]))[:count]
    assert found == [f"{value}:{index}".encode() for index, value in expected]


def test_refusals():
    with pytest.raises(InvalidInput, match="class result not available for output due to unsupported type 'BYTES'"):
        classes(object_tensor([b"a"], (1, 1)), 1, datatype=DataType.BYTES)
    with pytest.raises(InvalidInput, match="classification output tensor too large"):
        classes(np.zeros((1, MAX_ELEMENTS + 1), np.uint8), 1, datatype=DataType.UINT8)
