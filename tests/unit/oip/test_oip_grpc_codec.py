"""gRPC messages: round trips for every datatype, and one clear error for each malformed message."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from oip_samples import few, identity_signature, same, tensors

from trilith.core.request import InferResponse
from trilith.core.tensor import DataType
from trilith.errors import InvalidInput, TrilithError, Unsupported
from trilith.wire.oip_grpc import decode_request, encode_response, parse
from trilith.wire.oip_messages import service_messages

TYPED = {
    DataType.BOOL: "bool_contents",
    DataType.INT8: "int_contents",
    DataType.INT16: "int_contents",
    DataType.INT32: "int_contents",
    DataType.INT64: "int64_contents",
    DataType.UINT8: "uint_contents",
    DataType.UINT16: "uint_contents",
    DataType.UINT32: "uint_contents",
    DataType.UINT64: "uint64_contents",
    DataType.FP32: "fp32_contents",
    DataType.FP64: "fp64_contents",
    DataType.BYTES: "bytes_contents",
}


def _request(*tensors_, **fields):
    message = service_messages().ModelInferRequest(model_name="m", **fields)
    for tensor in tensors_:
        message.inputs.add(**tensor)
    return message


def _tensor(**changes):
    return {"name": "IN", "datatype": "FP32", "shape": [2], **changes}


def _decode(message, datatype=DataType.FP32):
    return decode_request(parse("ModelInferRequest", message.SerializeToString()), identity_signature(datatype))


@pytest.mark.parametrize("datatype", list(DataType))
@few
@given(data=st.data())
def test_raw_round_trip(datatype, data):
    array = data.draw(tensors(datatype))
    response = InferResponse(model="m", version="2", id="r", outputs={"OUT": array}, parameters={"a": 1})
    answer = parse("ModelInferResponse", encode_response(response, identity_signature(datatype)))
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "2", "r")
    assert answer.parameters["a"].int64_param == 1
    (output,) = answer.outputs
    assert (output.name, output.datatype, tuple(output.shape)) == ("OUT", datatype, array.shape)
    request = _request(
        {"name": "IN", "datatype": output.datatype, "shape": output.shape},
        raw_input_contents=answer.raw_output_contents,
    )
    same(_decode(request, datatype).request.inputs["IN"], array)


@pytest.mark.parametrize("datatype", list(TYPED))
@few
@given(data=st.data())
def test_typed_contents(datatype, data):
    array = data.draw(tensors(datatype))
    request = _request({"name": "IN", "datatype": str(datatype), "shape": array.shape})
    getattr(request.inputs[0].contents, TYPED[datatype]).extend(array.ravel().tolist())
    same(_decode(request, datatype).request.inputs["IN"], array)


def test_large_outputs_have_long_lengths():
    array = np.arange(100_000, dtype=np.float32)
    response = InferResponse(model="m", version="1", outputs={"A": array, "B": array[:0]})
    answer = parse("ModelInferResponse", encode_response(response, identity_signature()))
    assert list(answer.raw_output_contents) == [array.tobytes(), b""]


def test_parameters_and_outputs():
    message = _request(_tensor(), raw_input_contents=[b"\0" * 8], id="r", model_version="3")
    message.parameters["timeout"].int64_param = 1000
    message.parameters["priority"].uint64_param = 2
    message.parameters["own"].double_param = 0.5
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    message.outputs.add(name="A")
    call = _decode(message)
    assert (call.request.version, call.request.id, call.request.priority) == ("3", "r", 2)
    assert call.request.timeout_us == 1000
    assert call.request.outputs == ("A",)
    assert call.request.parameters == {"own": 0.5, "triton_enable_empty_final_response": True}


def test_parameters_of_the_answer():
    parameters = {"b": True, "i": -1, "u": 2**64 - 1, "s": "x", "d": 0.5}
    response = InferResponse(model="m", version="1", outputs={}, parameters=parameters)
    answer = parse("ModelInferResponse", encode_response(response, identity_signature()))
    assert {
        name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in answer.parameters.items()
    } == (parameters)


def _with(message, change):
    change(message)
    return message


@pytest.mark.parametrize(
    ("message", "datatype", "text"),
    [
        (_request(_tensor(datatype="X")), "FP32", "datatype must be one of"),
        (_request(_tensor(datatype="INT8")), "FP32", "data-type is 'INT8', but model 'm' expects 'FP32'"),
        (_request(_tensor(shape=[-1])), "FP32", "unsigned-integer"),
        (_request(_tensor(shape=[2**62, 4])), "FP32", "exceed maximum size"),
        (_request(_tensor()), "FP32", "unexpected number of elements 0 in 'fp32_contents'"),
        (_request(_tensor(contents={"fp32_contents": [1]})), "FP32", "expecting 2 for shape [2]"),
        (_request(_tensor(contents={"int_contents": [1, 2]})), "FP32", "unexpected 'int_contents' for input 'IN'"),
        (
            _request(_tensor(contents={"fp32_contents": [1, 2]}), raw_input_contents=[b"\0" * 8]),
            "FP32",
            "contents field must not be specified when using raw_input_contents",
        ),
        (_request(_tensor(), raw_input_contents=[b"\0" * 7]), "FP32", "input byte size mismatch"),
        (_request(_tensor(), raw_input_contents=[b"\0" * 8] * 2), "FP32", "unexpected additional input data"),
        (
            _request(_tensor(), _tensor(name="B"), raw_input_contents=[b"\0" * 8]),
            "FP32",
            "input 'B' for model 'm' has no data",
        ),
        (_request(_tensor(), _tensor(), raw_input_contents=[b"\0" * 8] * 2), "FP32", "already exists in request"),
        (_request(_tensor(datatype="FP16", contents={"fp32_contents": [1, 2]})), "FP16", "FP16 has no typed contents"),
        (
            _request(_tensor(datatype="INT8", contents={"int_contents": [1, 300]})),
            "INT8",
            "must be from -128 to 127 for INT8",
        ),
        (
            _request(_tensor(datatype="UINT16", contents={"uint_contents": [1, 2**16]})),
            "UINT16",
            "must be from 0 to 65535",
        ),
        (
            _request(_tensor(datatype="BYTES"), raw_input_contents=[b"\x09\0\0\0"]),
            "BYTES",
            "incomplete string data",
        ),
        (
            _with(_request(), lambda message: message.parameters["p"].SetInParent()),
            "FP32",
            "parameter 'p' holds no value",
        ),
        (
            _with(_request(), lambda message: message.parameters["timeout"].__setattr__("string_param", "1")),
            "FP32",
            "invalid value type for 'timeout' parameter, expected int64_param",
        ),
        (
            _with(
                _request(_tensor()),
                lambda message: message.inputs[0].parameters["shared_memory_region"].__setattr__("string_param", "r"),
            ),
            "FP32",
            "Client shared memory is disabled",
        ),
        (
            _with(
                _request(),
                lambda message: (
                    message.outputs.add(name="A").parameters["classification"].__setattr__("int64_param", -2)
                ),
            ),
            "FP32",
            "Unable to parse 'classification'",
        ),
        (
            _with(_request(), lambda message: (message.outputs.add(name="A"), message.outputs.add(name="A"))),
            "FP32",
            "output 'A' already exists in request",
        ),
    ],
)
def test_malformed(message, datatype, text):
    with pytest.raises((InvalidInput, Unsupported)) as raised:
        _decode(message, DataType(datatype))
    assert text in raised.value.message


def test_no_protobuf():
    with pytest.raises(InvalidInput, match="expected a protobuf message"):
        parse("ModelInferRequest", b"\xff\xff\xff")


@few
@given(st.binary(max_size=64))
def test_any_bytes_give_an_answer_or_an_error_of_ours(message):
    try:
        decode_request(parse("ModelInferRequest", message), identity_signature())
    except TrilithError:
        return
