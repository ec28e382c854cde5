"""Each malformed message gets one error that names what is wrong; nothing else is raised, whatever the bytes."""

import contextlib
import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from oip_samples import few, identity_signature

from trilith.core.request import InferRequest, InferResponse
from trilith.core.tensor import DataType
from trilith.errors import InvalidInput, ModelError, TrilithError, Unsupported
from trilith.wire.oip_http import decode_request, encode_response
from trilith.wire.oip_parameters import InferCall

GOOD = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}


def _tensor(**changes):
    return {"inputs": [{key: value for key, value in {**GOOD, **changes}.items() if value is not ...}]}


def _decode(message, datatype=DataType.FP32, **options):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return decode_request(body, identity_signature(datatype), **options)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "failed to parse the request JSON"),
        (b"{", "failed to parse the request JSON"),
        (b"\xff\xfe", "failed to parse the request JSON"),
        (b'{"inputs": [NaN}', "failed to parse the request JSON"),
        (b"[" * 100_000, "failed to parse the request JSON"),
        (b"[NaN," * 100_000, "failed to parse the request JSON"),
        (b"[" * 101 + b"]" * 101, "JSON nesting depth exceeds maximum allowed limit (100)"),
        (b'{"a":' * 101 + b"NaN" + b"}" * 101, "JSON nesting depth exceeds maximum allowed limit (100)"),
        (b"[" * 200, "JSON nesting depth exceeds maximum allowed limit (100)"),
        (b"[" * 10_000 + b"]" * 10_000, "JSON nesting depth exceeds maximum allowed limit (100)"),
        (b"[" * 100 + b"]" * 100, "must be a JSON object"),
        (json.dumps(["[" * 500] * 500).encode(), "must be a JSON object"),
        ([1], "must be a JSON object"),
        ({}, "Unable to parse 'inputs'"),
        ({"inputs": {}}, "Unable to parse 'inputs'"),
        ({"inputs": [1]}, "element 0 must be an object"),
        ({"inputs": [GOOD, GOOD]}, "input 'IN' already exists in request"),
        ({"inputs": [GOOD], "id": 5}, "Unable to parse 'id'"),
        ({"inputs": [GOOD], "id": "x" * 2000}, "Unable to parse 'id'"),
        ({"inputs": [GOOD], "parameters": []}, "Unable to parse 'parameters'"),
        ({"inputs": [GOOD], "parameters": {"a": {}}}, "parameter 'a' of the request has invalid type"),
        ({"inputs": [GOOD], "parameters": {"a": None}}, "parameter 'a' of the request has invalid type"),
        ({"inputs": [GOOD], "parameters": {"timeout": -1}}, "invalid value type for 'timeout' parameter, expected"),
        ({"inputs": [GOOD], "parameters": {"timeout": True}}, "invalid value type for 'timeout' parameter, expected"),
        ({"inputs": [GOOD], "parameters": {"priority": "1"}}, "invalid value type for 'priority' parameter, expected"),
        (
            {"inputs": [GOOD], "parameters": {"binary_data_output": 1}},
            "invalid value type for 'binary_data_output' parameter, expected",
        ),
        ({"inputs": [GOOD], "parameters": {"triton_x": 1}}, "parameter keys starting with 'triton_' are reserved"),
        ({"inputs": [GOOD], "outputs": {}}, "Unable to parse 'outputs'"),
        ({"inputs": [GOOD], "outputs": [{"name": "A", "parameters": {"x": None}}]}, "parameter 'x' of output 'A'"),
        ({"inputs": [GOOD], "outputs": [{}]}, "element 0 of 'outputs' needs a 'name'"),
        (_tensor(parameters={"own": 1}, data=[1.0, []]), "element 0 is the number 1.0 beside lists"),
        ({"inputs": [GOOD], "outputs": [{"name": "A"}, {"name": "A"}]}, "output 'A' already exists in request"),
        ({"inputs": [GOOD], "outputs": [{"name": "A", "parameters": {"binary_data": 1}}]}, "must be true or false"),
        (_tensor(name=...), "element 0 of 'inputs' needs a 'name'"),
        (_tensor(name=""), "element 0 of 'inputs' needs a 'name'"),
        (_tensor(datatype=...), "Unable to parse 'datatype': attempt to access JSON non-string as string"),
        (_tensor(datatype="FP99"), "datatype must be one of"),
        (_tensor(datatype=[]), "Unable to parse 'datatype': attempt to access JSON non-string as string"),
        (_tensor(datatype="INT32"), "inference input 'IN' data-type is 'INT32', but model 'm' expects 'FP32'"),
        (_tensor(shape=...), "Unable to parse 'shape'"),
        (_tensor(shape=[-1]), "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (_tensor(shape=[2.0]), "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (_tensor(shape=[True]), "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (_tensor(shape=[3]), "Shape does not match true shape of 'data' field"),
        (_tensor(shape=[]), "Shape does not match true shape of 'data' field"),
        (_tensor(shape=[2**62, 2**62]), "causes total element count to exceed maximum size"),
        (_tensor(shape=[0, 2**62, 2**62], data=[]), "causes total element count to exceed maximum size"),
        (_tensor(shape=[1] * 33), "33 dimensions"),
        (_tensor(data=...), "neither 'data' nor 'binary_data_size'"),
        (_tensor(data=5), "'data' must be a list, got the number 5"),
        (_tensor(data=None), "'data' must be a list, got null"),
        (_tensor(data=[1.0, "2"]), "element 1 of 'data' must be a number for FP32, got the string '2'"),
        (_tensor(data=[True, 1.0]), "element 0 of 'data' must be a number for FP32, got true"),
        (_tensor(data=[1.0, None]), "element 1 of 'data' must be a number for FP32, got null"),
        (_tensor(data=[1.0, {}]), "element 1 of 'data' must be a number for FP32, got an object"),
        (_tensor(data=[[1.0], 2.0]), "mixes lists and single values at one level: element 1 is the number 2.0"),
        (_tensor(data=[[1.0], [2.0, 3.0]]), "must be rectangular: the list at index 1 has 2 elements"),
        (_tensor(parameters={"shared_memory_region": "r"}), "Client shared memory is disabled"),
        (_tensor(parameters={"binary_data_size": 4}), "expecting 4 additional bytes"),
        (_tensor(parameters=7), "attempt to access JSON non-object as object (those of input 'IN')"),
        (
            {"inputs": [GOOD], "outputs": [{"name": "A", "parameters": {"classification": -2}}]},
            "Unable to parse 'classification'",
        ),
    ],
)
def test_json(message, text):
    with pytest.raises((InvalidInput, Unsupported)) as raised:
        _decode(message)
    assert text in raised.value.message


@pytest.mark.parametrize(
    ("datatype", "data", "text"),
    [
        ("UINT8", [1, 256], "element 1 of 'data' must be from 0 to 255 for UINT8, got the number 256"),
        ("UINT8", [-1, 2], "element 0 of 'data' must be from 0 to 255"),
        ("INT8", [0, -129], "element 1 of 'data' must be from -128 to 127"),
        ("INT64", [0, 2**63], "element 1 of 'data' must be from"),
        ("INT64", [0, 2**70], "element 1 of 'data' must be an integer for INT64"),
        ("FP32", [1, -1e300], "element 1 of 'data' is too large; it must be finite for FP32, got the number -1e+300"),
        ("INT32", [1, 1.5], "element 1 of 'data' must be an integer for INT32, got the number 1.5"),
        ("INT32", [1, 1.0], "element 1 of 'data' must be an integer for INT32, got the number 1.0"),
        ("INT32", [1, True], "element 1 of 'data' must be an integer for INT32, got true"),
        ("BOOL", [True, 1], "element 1 of 'data' must be true or false for BOOL, got the number 1"),
        ("BYTES", ["a", 1], "element 1 of 'data' must be a string for BYTES, got the number 1"),
        (
            "FP16",
            [1, 2],
            "receiving FP16 data via JSON is not supported. Please use the binary data format for input IN",
        ),
        (
            "BF16",
            [1, 2],
            "receiving BF16 data via JSON is not supported. Please use the binary data format for input IN",
        ),
    ],
)
def test_values_are_not_bent(datatype, data, text):
    with pytest.raises(InvalidInput) as raised:
        _decode(_tensor(datatype=datatype, data=data), DataType(datatype))
    assert text in raised.value.message


def test_values_that_only_pythons_json_reads():
    nan = b'{"inputs":[{"name":"IN","datatype":"%s","shape":[2],"data":[%s]}]}'
    with pytest.raises(InvalidInput, match="element 1 of 'data' must be an integer for INT32, got the number nan"):
        _decode(nan % (b"INT32", b"1,NaN"), DataType.INT32)
    with pytest.raises(InvalidInput, match="element 1 of 'data' is too large; it must be finite for FP64"):
        _decode(nan % (b"FP64", b"NaN," + b"9" * 400), DataType.FP64)
    with pytest.raises(InvalidInput, match="half of a surrogate pair"):
        _decode(b'{"x":NaN,"inputs":[{"name":"IN","datatype":"BYTES","shape":[1],"data":["\\ud800"]}]}', DataType.BYTES)


def test_nesting_is_limited():
    data = 1.0
    for _ in range(101):
        data = [data]
    with pytest.raises(InvalidInput, match="JSON nesting depth exceeds maximum allowed limit"):
        _decode(_tensor(shape=[1], data=data))


def _binary(blobs, *tensors, length=None):
    header = json.dumps({"inputs": list(tensors)}).encode()
    return {"message": header + blobs, "json_length": str(len(header)).encode() if length is None else length}


def _blob(size, name="IN", shape=(2,), **more):
    return {"name": name, "datatype": "FP32", "shape": list(shape), "parameters": {"binary_data_size": size}, **more}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (_binary(b"\0" * 8, _blob(-8)), "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (_binary(b"\0" * 8, _blob("8")), "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (_binary(b"\0" * 8, _blob(True)), "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        (_binary(b"\0" * 8, _blob(2**60)), "additional bytes for model 'm'"),
        (_binary(b"\0" * 8, _blob(9)), "unexpected size for input 'IN', expecting 1 additional bytes for model 'm'"),
        (_binary(b"\0" * 8, _blob(4)), "input byte size mismatch for input 'IN' for model 'm'. Expected 8, got 4"),
        (_binary(b"\0" * 12, _blob(8)), "unexpected additional input data for model 'm': 4 bytes"),
        (_binary(b"\0" * 8, _blob(8), _blob(8, "B")), "unexpected size for input 'B', expecting 8 additional bytes"),
        (_binary(b"\0" * 8, _blob(8, data=[1, 2])), "has both 'data' and 'binary_data_size'"),
        (_binary(b"\0" * 8, _blob(8, shape=(2**40, 2**40))), "exceed maximum size"),
        (_binary(b"\0" * 8, _blob(8), length=b"-1"), "Inference-Header-Content-Length must be an integer"),
        (_binary(b"\0" * 8, _blob(8), length=b"x"), "Inference-Header-Content-Length must be an integer"),
        (_binary(b"\0" * 8, _blob(8), length=b"9" * 30), "Inference-Header-Content-Length must be an integer"),
        (_binary(b"\0" * 8, _blob(8), length=b"99999"), "but the body has only"),
        (_binary(b"\0" * 8, _blob(8), length=b"3"), "failed to parse the request JSON"),
    ],
)
def test_binary_sizes_that_lie(call, text):
    with pytest.raises(InvalidInput) as raised:
        _decode(**call)
    assert text in raised.value.message


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x01\x00", "incomplete string length indicator"),
        (b"\x05\x00\x00\x00ab", "incomplete string data"),
        (b"\xff\xff\xff\xffab", "incomplete string data"),
        (b"\x01\x00\x00\x00a", "expected 2 string elements for inference input 'IN' for model 'm', got 1"),
        (b"\0\0\0\0" * 3, "unexpected number of string elements 3 for inference input 'IN' for model 'm', expecting 2"),
    ],
)
def test_bytes_that_lie(raw, text):
    call = _binary(raw, {**_blob(len(raw)), "datatype": "BYTES"})
    with pytest.raises(InvalidInput) as raised:
        _decode(datatype=DataType.BYTES, **call)
    assert text in raised.value.message


@few
@given(st.binary(max_size=64), st.sampled_from([None, b"0", b"5", b"30"]))
def test_any_bytes_give_an_answer_or_an_error_of_ours(body, json_length):
    with contextlib.suppress(TrilithError):
        decode_request(body, identity_signature(), json_length=json_length)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a"]), inner, max_size=3),
    max_leaves=6,
)


@few
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": JSON | st.just("IN"),
            "datatype": JSON | st.sampled_from(list(map(str, DataType))),
            "shape": JSON | st.lists(st.integers(-1, 4), max_size=3),
            "data": JSON,
            "parameters": JSON | st.fixed_dictionaries({"binary_data_size": JSON}),
        },
    ),
    st.sampled_from(list(DataType)),
)
def test_any_tensor_gives_an_answer_or_an_error_of_ours(tensor, datatype):
    with contextlib.suppress(TrilithError):
        _decode({"inputs": [tensor]}, datatype)


@pytest.mark.parametrize(
    ("array", "datatype", "error", "text"),
    [
        (np.zeros(1, np.float16), DataType.FP16, InvalidInput, "sending FP16 data via JSON is not supported"),
        (np.zeros(1, np.uint16), DataType.BF16, InvalidInput, "sending BF16 data via JSON is not supported"),
        (np.array([b"\xff"], object), DataType.BYTES, InvalidInput, "bytes that are not UTF-8"),
        (np.array([5], object), DataType.BYTES, ModelError, "must be bytes or str, got int"),
        (np.zeros(1, np.complex64), DataType.FP32, ModelError, "output 'OUT' of model 'm'"),
    ],
)
def test_outputs_that_cannot_travel(array, datatype, error, text):
    response = InferResponse(model="m", version="1", outputs={"OUT": array})
    call = InferCall(request=InferRequest(model="m", inputs={}))
    with pytest.raises(error, match=text):
        encode_response(response, identity_signature(datatype), call)


@pytest.mark.parametrize(
    ("datatype", "dims", "body", "text"),
    [
        (DataType.FP32, (-1, -1), b"\0" * 8, "more than one variable-sized dimension"),
        (DataType.BYTES, (2,), b"x", "the model must have input shape [1]"),
        (DataType.FP32, (-1,), b"\0" * 9, "input byte size mismatch"),
        (DataType.FP32, (4,), b"\0" * 8, "input byte size mismatch"),
    ],
)
def test_raw_requests(datatype, dims, body, text):
    with pytest.raises(InvalidInput) as raised:
        decode_request(body, identity_signature(datatype, dims=dims), json_length=b"0")
    assert text in raised.value.message
