"""Property: what is encoded is decoded to the same tensor, in JSON and as binary data, for every datatype."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from oip_samples import JSON_TYPES, few, identity_signature, same, tensors

from trilith.core.request import InferRequest, InferResponse
from trilith.core.tensor import NUMPY_OF, DataType
from trilith.wire.oip_http import decode_request, encode_response
from trilith.wire.oip_parameters import InferCall


def _call(binary):
    return InferCall(request=InferRequest(model="m", inputs={}), binary_outputs=binary)


def _request_of_answer(body, json_bytes):
    """Turns an answer into a request with the same tensors: both have the same form."""
    text, rest = (body, b"") if json_bytes is None else (body[:json_bytes], body[json_bytes:])
    answer = json.loads(text)
    answer["inputs"] = [{**output, "name": "IN"} for output in answer.pop("outputs")]
    header = json.dumps(answer).encode()
    return header + rest, None if json_bytes is None else str(len(header)).encode()


def _round_trip(array, datatype, *, binary):
    signature = identity_signature(datatype)
    response = InferResponse(model="m", version="3", outputs={"OUT": array}, id="r")
    body, json_bytes = encode_response(response, signature, _call(binary))
    assert (json_bytes is not None) == binary
    request, json_length = _request_of_answer(body, json_bytes)
    call = decode_request(request, signature, json_length=json_length)
    assert call.request.id == "r"
    return call.request.inputs["IN"]


@pytest.mark.parametrize("datatype", JSON_TYPES)
@few
@given(data=st.data())
def test_json(datatype, data):
    array = data.draw(tensors(datatype, text_only=True))
    same(_round_trip(array, datatype, binary=False), array)


@pytest.mark.parametrize("datatype", list(DataType))
@few
@given(data=st.data())
def test_binary(datatype, data):
    array = data.draw(tensors(datatype))
    same(_round_trip(array, datatype, binary=True), array)


@few
@given(st.lists(st.integers(0, 3), max_size=3).flatmap(lambda dims: st.tuples(st.just(dims), st.data())))
def test_nested_data_is_flat_data(drawn):
    dims, data = drawn
    array = data.draw(st.just(np.arange(int(np.prod(dims)), dtype=np.int32).reshape(dims)))
    shape = dims or [1]
    nested = array.reshape(shape).tolist()
    tensor = {"name": "IN", "datatype": "INT32", "shape": shape, "data": nested}
    body = json.dumps({"inputs": [tensor]}).encode()
    call = decode_request(body, identity_signature(DataType.INT32))
    same(call.request.inputs["IN"], array.reshape(shape))


@pytest.mark.parametrize("datatype", [DataType.FP32, DataType.FP64])
def test_non_finite_numbers_are_literals(datatype):
    array = np.array([np.nan, np.inf, -np.inf, -0.0, 0.1], NUMPY_OF[datatype])
    response = InferResponse(model="m", version="1", outputs={"OUT": array})
    body, _ = encode_response(response, identity_signature(datatype), _call(False))
    assert b"NaN" in body
    assert b"-Infinity" in body
    same(_round_trip(array, datatype, binary=False), array)


def test_an_answer_with_the_word_null_stays_plain_json():
    response = InferResponse(model="m", version="1", outputs={"OUT": np.array([1.5])}, id="null")
    body, _ = encode_response(response, identity_signature(DataType.FP64), _call(False))
    assert json.loads(body)["outputs"][0]["data"] == [1.5]


def test_strided_and_big_endian_outputs():
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    for array in (base.T, base[:, ::2], base.astype(">f4")):
        expected = np.ascontiguousarray(array).astype("<f4")
        same(_round_trip(array, DataType.FP32, binary=True), expected)
        same(_round_trip(array, DataType.FP32, binary=False), expected)


def test_the_memory_of_aligned_binary_data_is_not_copied():
    header = b'{"inputs":[{"name":"IN","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}}]}'
    body = header + b"abc"
    call = decode_request(body, identity_signature(DataType.UINT8), json_length=str(len(header)).encode())
    array = call.request.inputs["IN"]
    assert np.shares_memory(array, np.frombuffer(body, np.uint8))
    assert not array.flags.writeable


def test_bools_of_binary_data_are_zero_or_one():
    header = b'{"inputs":[{"name":"IN","datatype":"BOOL","shape":[3],"parameters":{"binary_data_size":3}}]}'
    call = decode_request(
        header + b"\x00\x01\x07", identity_signature(DataType.BOOL), json_length=str(len(header)).encode()
    )
    assert call.request.inputs["IN"].view(np.uint8).tolist() == [0, 1, 1]


def test_parameters_id_and_outputs():
    body = json.dumps(
        {
            "id": "abc",
            "parameters": {"timeout": 2500, "priority": 2, "binary_data_output": True, "own": 1.5, "sequence_id": 7},
            "inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1], "unknown": {}}],
            "outputs": [{"name": "A", "parameters": {"binary_data": False}}, {"name": "B"}],
            "unknown_field": [1, {"a": None}],
        }
    ).encode()
    call = decode_request(body, identity_signature(), version="4")
    request = call.request
    assert (request.model, request.version, request.id, request.priority) == ("m", "4", "abc", 2)
    assert request.outputs == ("A", "B")
    assert request.parameters == {"own": 1.5, "sequence_id": 7}
    assert request.timeout_us == 2500
    assert (call.binary, call.binary_outputs) == ({"A": False}, True)


@pytest.mark.parametrize(
    ("datatype", "dims", "max_batch_size", "body", "shape"),
    [
        (DataType.FP32, (-1,), 0, b"\0" * 12, (3,)),
        (DataType.INT16, (-1, 2, -1), 8, b"\0" * 12, (1, 2, 3)),
        (DataType.UINT8, (4,), 0, b"abcd", (4,)),
        (DataType.BYTES, (1,), 0, b"any bytes", (1,)),
        (DataType.BYTES, (-1, 1), 8, b"any bytes", (1, 1)),
    ],
)
def test_a_raw_request_deduces_its_shape(datatype, dims, max_batch_size, body, shape):
    signature = identity_signature(datatype, dims=dims, max_batch_size=max_batch_size)
    call = decode_request(body, signature, json_length=b"0")
    array = call.request.inputs["IN"]
    assert array.shape == shape
    assert call.binary_outputs
    if datatype is DataType.BYTES:
        assert array.ravel().tolist() == [body]


def test_parameters_of_the_answer_and_text_outputs():
    response = InferResponse(
        model="m", version="1", outputs={"OUT": np.array(["a", "grüße"], object)}, parameters={"tokens": 2}
    )
    body, _ = encode_response(response, identity_signature(DataType.BYTES), _call(False))
    answer = json.loads(body)
    assert answer["parameters"] == {"tokens": 2}
    assert answer["outputs"][0]["data"] == ["a", "grüße"]


def test_fp32_rounds_as_ieee_does():
    body = b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[3],"data":[0.1,3.4e38,16777217]}]}'
    array = decode_request(body, identity_signature()).request.inputs["IN"]
    assert array.tolist() == [float(np.float32(0.1)), float(np.float32(3.4e38)), 16777216.0]
