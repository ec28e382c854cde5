"""Tensor messages between processes: what goes in comes out, and nothing malformed gets in."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trilith.core.request import InferRequest, InferResponse
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidInput
from trilith.wire.tensors import pack_request, pack_response, unpack_request, unpack_response

NUMBERS = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def through_bytes(buffers):
    return [bytes(buffer) for buffer in buffers]


@given(hnp.arrays(st.sampled_from(NUMBERS), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
def test_a_number_tensor_survives(array):
    response = InferResponse(model="m", version="3", outputs={"y": array}, id="7", parameters={"a": 1, "b": True})
    back = unpack_response(through_bytes(pack_response(response)))
    assert (back.model, back.version, back.id, back.parameters) == ("m", "3", "7", {"a": 1, "b": True})
    assert back.outputs["y"].dtype == array.dtype
    np.testing.assert_array_equal(back.outputs["y"], array)


@given(st.lists(st.binary(max_size=9), max_size=6))
def test_bytes_tensors_survive(elements):
    array = np.empty(len(elements), object)
    array[:] = elements
    request = InferRequest(model="m", inputs={"x": array}, outputs=("y", "z"), priority=3, version="1")
    back = unpack_request(through_bytes(pack_request(request)))
    assert (back.outputs, back.priority, back.version) == (("y", "z"), 3, "1")
    assert back.inputs["x"].tolist() == elements


def test_the_arrays_are_views_on_both_sides():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffers = pack_request(InferRequest(model="m", inputs={"x": array}))
    assert np.shares_memory(np.frombuffer(buffers[1], np.float32), array)
    back = unpack_request(buffers)
    assert np.shares_memory(back.inputs["x"], array)


def test_strided_and_big_endian_arrays_arrive_in_order():
    strided = np.arange(12, dtype=np.int32).reshape(3, 4).T
    foreign = np.arange(3, dtype=">i8")
    back = unpack_request(through_bytes(pack_request(InferRequest(model="m", inputs={"a": strided, "b": foreign}))))
    np.testing.assert_array_equal(back.inputs["a"], strided)
    np.testing.assert_array_equal(back.inputs["b"], [0, 1, 2])
    assert back.inputs["b"].dtype.isnative


def test_bf16_keeps_its_name():
    bits = np.array([1, 2], np.uint16)
    specs = [TensorSpec(name="y", datatype=DataType.BF16, shape=(2,))]
    buffers = pack_response(InferResponse(model="m", version="1", outputs={"y": bits}), outputs=specs)
    assert msgspec.msgpack.decode(buffers[0])[2] == [["y", "BF16", [2]]]
    np.testing.assert_array_equal(unpack_response(buffers).outputs["y"], bits)


def header(*tensors, **changes):
    fields = {"model": "m", "version": "", "tensors": tensors, **changes}
    return msgspec.msgpack.encode(list(fields.values()))


@pytest.mark.parametrize(
    ("buffers", "says"),
    [
        ([], "no buffers"),
        ([b""], "could not be read"),
        ([b"\xff\xff"], "could not be read"),
        ([msgspec.msgpack.encode({"model": "m"})], "could not be read"),
        ([header(["x", "FP32", ["a"]]), b""], "could not be read"),
        ([header(["x", "FP32", [2]])], "names 1 tensors, but 0 buffers"),
        ([header(["x", "FP32", [2]]), bytes(8), b""], "names 1 tensors, but 2 buffers"),
        ([header(["x", "FP31", [2]]), bytes(8)], "datatype must be one of"),
        ([header(["x", "FP32", [2]]), bytes(7)], "Expected 8, got 7"),
        ([header(["x", "FP32", [-2]]), bytes(8)], "integer >= 0"),
        ([header(["x", "FP32", [1 << 62, 1 << 62]]), b""], "exceed maximum size"),
        ([header(["x", "FP32", [1] * 40]), bytes(4)], "dimensions"),
        ([header(["x", "BYTES", [1]]), b"\xff\xff\xff\x7fab"], "incomplete string data"),
        ([header(["x", "BYTES", [2]]), b"\0\0\0\0"], "expected 2 string elements"),
        ([header(["x", "FP32", [1]], ["x", "FP32", [1]]), bytes(4), bytes(4)], "comes twice"),
        ([header(["x", "FP32", [1]]), np.zeros(1, np.float32).data], "buffer of bytes"),
    ],
)
def test_malformed_messages_are_refused(buffers, says):
    with pytest.raises(InvalidInput, match=says):
        unpack_request(buffers)


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_noise_is_refused_or_read_but_never_crashes(buffers):
    for unpack in (unpack_request, unpack_response):
        try:
            unpack(buffers)
        except InvalidInput:
            continue


def test_a_dtype_without_a_name_is_refused():
    with pytest.raises(InvalidInput, match=r"tensor 'x' of model 'm'.*complex128"):
        pack_request(InferRequest(model="m", inputs={"x": np.zeros(1, complex)}))
    with pytest.raises(InvalidInput, match="bytes or str"):
        pack_request(InferRequest(model="m", inputs={"x": np.array([1], object)}))
