"""The generate extension: plain JSON in, plain JSON out, for models whose tensors are a few values.

`{"text": "hi", "numbers": [1, 2], "parameters": {...}, "id": "..."}`: a key that is an input's name is that tensor, any
other one is a parameter. A value without a list is one element; dimensions that are left out are 1.
The answer has a key for each output: one element stands alone, several are a list in row-major order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from trilith.core.request import InferRequest, InferResponse
from trilith.core.tensor import Array
from trilith.errors import InvalidInput
from trilith.wire.oip_json import array_from_json, json_from_array, loads, to_builtin
from trilith.wire.oip_parameters import InferCall, apply_parameters
from trilith.wire.oip_status import JsonTypeError
from trilith.wire.oip_tensor import Signature, checked_count


def decode_generate(body: bytes | memoryview, signature: Signature, *, version: str = "") -> InferCall:
    """Reads the body of `POST /v2/models/NAME/generate`.

    Raises:
        InvalidInput: the message is malformed; the text says where.
    """
    message = loads(body)
    if type(message) is not dict:
        raise InvalidInput("the request must be a JSON object: the model's inputs, 'parameters' and 'id'")
    request_id = message.pop("id", "")
    if type(request_id) is not str:
        raise JsonTypeError("id", "string")
    parameters = message.pop("parameters", {})
    if type(parameters) is not dict:
        raise JsonTypeError("parameters", "object")
    request = InferRequest(model=signature.model, version=version, id=request_id, inputs={})
    others: dict[str, Any] = {}
    for name, value in message.items():
        if name in signature.inputs:
            request.inputs[name] = _tensor(name, value, signature)
        else:
            others[name] = value
    others.update(parameters)
    call = InferCall(request=request)
    apply_parameters(call, _scalars(others))
    return call


def encode_generate(response: InferResponse, signature: Signature) -> bytes:
    """Writes the answer as one JSON object.

    Raises:
        InvalidInput: an output cannot travel as JSON.
        ModelError: an output has no protocol datatype.
    """
    message: dict[str, Any] = {"id": response.id} if response.id else {}
    message.update(response.parameters)
    message.update(model_name=response.model, model_version=response.version)
    for name, array in response.outputs.items():
        data = json_from_array(signature, name, signature.output_datatype(name, array), array)
        message[name] = data[0] if len(data) == 1 else data
    text = orjson.dumps(message, default=to_builtin, option=orjson.OPT_SERIALIZE_NUMPY)
    # orjson writes a NaN as null; nothing else here is one.
    return json.dumps(message, default=to_builtin, ensure_ascii=False).encode() if b"null" in text else text


def server_sent_event(data: bytes) -> bytes:
    """One event of `text/event-stream`."""
    return b"data: " + data + b"\n\n"


def _tensor(name: str, value: Any, signature: Signature) -> Array:
    spec = signature.inputs[name]
    data = value if type(value) is list else [value]
    shape: tuple[int, ...] = ()
    inner: Any = data
    while type(inner) is list and len(shape) <= len(spec.shape):
        shape += (len(inner),)
        inner = inner[0] if inner else None
    shape = (1,) * (len(spec.shape) - len(shape)) + shape
    return array_from_json(signature, name, spec.datatype, shape, checked_count(name, shape), data)


def _scalars(parameters: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    for name, value in parameters.items():
        if type(value) not in (bool, int, float, str):
            raise InvalidInput(
                f"parameter '{name:.60}' has invalid type. It should be a boolean, a number or a string; nested "
                "objects and lists are for inputs of the model only"
            )
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            raise InvalidInput(f"parameter '{name:.60}' must fit 64 bits, got {value!r:.40}")
    return dict(parameters)
