"""The generate extension: which tensors a plain JSON object becomes, and back."""

import json

import numpy as np
import pytest
from oip_samples import object_tensor

from trilith.core.request import InferResponse
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidInput
from trilith.wire.oip_generate import decode_generate, encode_generate, server_sent_event
from trilith.wire.oip_tensor import Signature

TEXT = TensorSpec(name="text", datatype=DataType.BYTES, shape=(-1, 1))
NUMBERS = TensorSpec(name="numbers", datatype=DataType.FP32, shape=(-1, -1))
SIGNATURE = Signature.of("m", [TEXT, NUMBERS], [TEXT, NUMBERS], 4)


def decode(message, signature=SIGNATURE):
    return decode_generate(json.dumps(message).encode(), signature, version="3")


def test_inputs_and_parameters():
    call = decode(
        {"text": "hi", "numbers": [1, 2.5], "id": "r", "stream": False, "parameters": {"top": 3, "priority": 2}}
    )
    request = call.request
    assert (request.model, request.version, request.id, request.priority) == ("m", "3", "r", 2)
    assert request.inputs["text"].tolist() == [[b"hi"]]
    assert request.inputs["numbers"].tolist() == [[1.0, 2.5]]
    assert request.parameters == {"stream": False, "top": 3}


@pytest.mark.parametrize(
    ("value", "shape"), [(1.0, (1, 1)), ([1.0], (1, 1)), ([1.0, 2.0], (1, 2)), ([[1.0], [2.0]], (2, 1)), ([], (1, 0))]
)
def test_dimensions_that_are_left_out_are_one(value, shape):
    assert decode({"numbers": value}).request.inputs["numbers"].shape == shape


def test_without_a_batch_dimension():
    spec = TensorSpec(name="x", datatype=DataType.INT32, shape=(-1,))
    signature = Signature.of("m", [spec], [spec])
    assert decode({"x": 5}, signature).request.inputs["x"].tolist() == [5]
    assert decode({"x": [5, 6]}, signature).request.inputs["x"].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ([1], "must be a JSON object"),
        ({"id": 1}, "Unable to parse 'id': attempt to access JSON non-string as string"),
        ({"parameters": 1}, "Unable to parse 'parameters'"),
        ({"other": {"a": 1}}, "parameter 'other' has invalid type"),
        ({"other": [1]}, "parameter 'other' has invalid type"),
        ({"other": None}, "parameter 'other' has invalid type"),
        ({"parameters": {"a": {}}}, "parameter 'a' has invalid type"),
        ({"parameters": {"triton_a": 1}}, "parameter keys starting with 'triton_' are reserved"),
        ({"text": 1}, "must be a string"),
        ({"text": {}}, "must be a string"),
        ({"numbers": [[1], [2, 3]]}, "must be rectangular"),
    ],
)
def test_refusals(message, text):
    with pytest.raises(InvalidInput) as raised:
        decode(message)
    assert text in raised.value.message


def encode(**outputs):
    return json.loads(encode_generate(InferResponse(model="m", version="1", outputs=outputs), SIGNATURE))


@pytest.mark.parametrize("code", "?bBhHiIlLqQfd")
@pytest.mark.parametrize("values", [[], [1], [1, 0]])
def test_every_number_of_numpy_is_written_whatever_it_is_called(code, values):
    """`longlong` is what an INT64 of ONNX Runtime is; numpy tells it from `long`, which is as wide."""
    written = encode(numbers=np.array(values, code))["numbers"]
    assert written == (values[0] if len(values) == 1 else values)


def test_answers():
    assert encode(
        text=object_tensor([b"hi"], (1, 1)),
        numbers=np.array([[1.0, 2.0]], np.float32),
        short=np.array([0.1], np.float32),
        none=np.zeros((1, 0), np.int32),
        flag=np.array([True]),
    ) == {
        "model_name": "m",
        "model_version": "1",
        "text": "hi",
        "numbers": [1.0, 2.0],
        "short": 0.1,
        "none": [],
        "flag": True,
    }


def test_an_answer_keeps_id_parameters_and_nan():
    response = InferResponse(
        model="m", version="1", id="r", parameters={"p": 1}, outputs={"numbers": np.array([np.nan, 1], np.float32)}
    )
    text = encode_generate(response, SIGNATURE)
    assert text.startswith(b'{"id": "r", "p": 1, "model_name"')
    assert b"[NaN, 1.0]" in text


def test_an_event():
    assert server_sent_event(b"{}") == b"data: {}\n\n"
