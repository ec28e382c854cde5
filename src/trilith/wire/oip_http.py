"""Whole inference messages over HTTP: body <-> `InferRequest` and `InferResponse`.

Rule 1: one decoder for JSON bodies, JSON with binary blobs, and the raw binary request (a body that is one tensor).
Rule 2: fields that the protocol does not define are ignored, as Triton does; those that it defines are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trilith.core.request import InferRequest, InferResponse, Parameter
from trilith.core.tensor import NUMPY_OF, Array, DataType
from trilith.errors import InvalidInput
from trilith.wire.oip_binary import Blobs, header_length
from trilith.wire.oip_json import array_from_json, dumps, json_from_array, loads
from trilith.wire.oip_parameters import InferCall, apply_parameters, classes_wanted, refuse_shared_memory
from trilith.wire.oip_status import JsonTypeError
from trilith.wire.oip_tensor import (
    Signature,
    array_from_raw,
    checked_count,
    checked_datatype,
    raw_from_array,
)

_NO_PARAMETERS: Final[dict[str, Any]] = {}
_MAX_ID_CHARS: Final = 1024
_MIN_INT64: Final = -(1 << 63)
_MAX_UINT64: Final = (1 << 64) - 1


def decode_request(
    body: bytes | memoryview, signature: Signature, *, version: str = "", json_length: bytes | None = None
) -> InferCall:
    """Reads the body of `POST /v2/models/NAME/infer`.

    Args:
        body: the whole body.
        signature: of the model that the URL names.
        version: the version that the URL names, or "".
        json_length: the value of the header `Inference-Header-Content-Length`, or None.

    Raises:
        InvalidInput: the message is malformed; the text says where.
        Unsupported: it asks for an extension that is not offered.
    """
    if json_length is None:
        return _decode(loads(body), Blobs(signature, memoryview(b"")), signature, version)
    length = header_length(json_length, len(body))
    view = memoryview(body)
    if length == 0:
        return _decode_raw(view, signature, version)
    return _decode(loads(view[:length]), Blobs(signature, view[length:]), signature, version)


def encode_response(response: InferResponse, signature: Signature, call: InferCall) -> tuple[bytes, int | None]:
    """Writes the answer in the form that `call` asks for.

    Returns:
        The body, and the length of its JSON part when binary blobs follow, else None.

    Raises:
        InvalidInput: an output cannot travel as JSON and binary data was not asked for.
        ModelError: an output has no protocol datatype.
    """
    outputs: list[dict[str, Any]] = []
    blobs: list[memoryview | bytes] = []
    for name, array in response.outputs.items():
        datatype = signature.output_datatype(name, array)
        output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": array.shape}
        if call.binary.get(name, call.binary_outputs):
            raw = raw_from_array(signature, name, datatype, array)
            output["parameters"] = {"binary_data_size": memoryview(raw).nbytes}
            blobs.append(raw)
        else:
            output["data"] = json_from_array(signature, name, datatype, array)
        outputs.append(output)
    message: dict[str, Any] = {"model_name": response.model, "model_version": response.version}
    if response.id:
        message["id"] = response.id
    if response.parameters:
        message["parameters"] = response.parameters
    message["outputs"] = outputs
    text = dumps(message)
    return (b"".join((text, *blobs)), len(text)) if blobs else (text, None)


def _decode(message: Any, blobs: Blobs, signature: Signature, version: str) -> InferCall:
    if type(message) is not dict:
        raise InvalidInput("the request must be a JSON object with the field 'inputs'")
    request_id = message.get("id", "")
    if type(request_id) is not str:
        raise JsonTypeError("id", "string")
    if len(request_id) > _MAX_ID_CHARS:
        raise InvalidInput(f"Unable to parse 'id': expected a string of at most {_MAX_ID_CHARS} characters")
    inputs = message.get("inputs")
    if type(inputs) is not list:
        raise JsonTypeError("inputs", "array", f" (expected a list of tensors in the request for '{signature.model}')")
    request = InferRequest(model=signature.model, version=version, id=request_id, inputs={})
    call = InferCall(request=request)
    arrays = request.inputs
    for position, tensor in enumerate(inputs):
        name = _name(tensor, "inputs", position)
        if name in arrays:
            raise InvalidInput(f"input '{name}' already exists in request")
        arrays[name] = _input(tensor, name, blobs, signature)
    blobs.finish()
    if "parameters" in message:
        apply_parameters(call, _checked_parameters(message["parameters"], "the request"))
    if "outputs" in message:
        _decode_outputs(message["outputs"], call)
    return call


def _input(tensor: dict[str, Any], name: str, blobs: Blobs, signature: Signature) -> Array:
    datatype = checked_datatype(signature, name, tensor.get("datatype"))
    dimensions = tensor.get("shape")
    if type(dimensions) is not list:
        raise JsonTypeError("shape", "array", f" (input '{name}': expected a list of integers >= 0)")
    count = checked_count(name, dimensions)
    shape = tuple(dimensions)
    parameters = tensor.get("parameters", _NO_PARAMETERS)
    if parameters:
        _checked_parameters(parameters, f"input '{name}'")
        refuse_shared_memory(parameters, "input", name)
        if "binary_data_size" in parameters:
            raw = blobs.take(name, parameters["binary_data_size"])
            if "data" in tensor:
                raise InvalidInput(f"input '{name}' has both 'data' and 'binary_data_size'; give one of them")
            return array_from_raw(signature, name, datatype, shape, count, raw)
    if "data" not in tensor:
        raise InvalidInput(f"input '{name}' for model '{signature.model}' has neither 'data' nor 'binary_data_size'")
    return array_from_json(signature, name, datatype, shape, count, tensor["data"])


def _decode_outputs(outputs: object, call: InferCall) -> None:
    if type(outputs) is not list:
        raise JsonTypeError("outputs", "array")
    names: dict[str, None] = {}
    for position, output in enumerate(outputs):
        name = _name(output, "outputs", position)
        if name in names:
            raise InvalidInput(f"output '{name}' already exists in request")
        names[name] = None
        parameters = output.get("parameters")
        if parameters:
            _checked_parameters(parameters, f"output '{name}'")
            refuse_shared_memory(parameters, "output", name)
            count = classes_wanted(parameters, name)
            if count:
                call.classes[name] = count
            wanted = parameters.get("binary_data")
            if wanted is not None:
                if type(wanted) is not bool:
                    raise JsonTypeError(
                        "binary_data", "boolean", f" (output '{name}': must be true or false, got {wanted!r:.40})"
                    )
                call.binary[name] = wanted
    call.request.outputs = tuple(names)


def _decode_raw(view: memoryview, signature: Signature, version: str) -> InferCall:
    """The raw binary request: the body is the only input, its shape is deduced, all outputs come as binary data."""
    if len(signature.inputs) != 1:
        raise InvalidInput(
            f"Raw request must only have 1 input (found 1) to be deduced but got {len(signature.inputs)} inputs in "
            f"'{signature.model}' model configuration"
        )
    (spec,) = signature.inputs.values()
    shape = list(spec.shape)
    if signature.max_batch_size > 0:
        shape[0] = 1
    if spec.datatype is DataType.BYTES:
        shape = _raw_bytes_shape(spec.name, shape)
        array = array_from_raw(
            signature, spec.name, spec.datatype, tuple(shape), 1, len(view).to_bytes(4, "little") + bytes(view)
        )
    else:
        shape = _raw_shape(spec.name, spec.datatype, shape, len(view))
        array = array_from_raw(signature, spec.name, spec.datatype, tuple(shape), checked_count(spec.name, shape), view)
    request = InferRequest(model=signature.model, version=version, inputs={spec.name: array})
    return InferCall(request=request, binary_outputs=True)


def _raw_bytes_shape(name: str, shape: list[int]) -> list[int]:
    fixed = [1 if dimension == -1 else dimension for dimension in shape]
    if any(dimension != 1 for dimension in fixed):
        raise InvalidInput(f"For BYTE datatype raw input '{name}', the model must have input shape [1]")
    return fixed


def _raw_shape(name: str, datatype: DataType, shape: list[int], size_bytes: int) -> list[int]:
    variable = [index for index, dimension in enumerate(shape) if dimension == -1]
    if len(variable) > 1:
        raise InvalidInput(
            f"The shape of the raw input '{name}' can not be deduced because there are more than one variable-sized "
            "dimension"
        )
    if variable:
        fixed_count = 1
        for dimension in shape:
            fixed_count *= dimension if dimension > 0 else 1
        shape[variable[0]] = size_bytes // (NUMPY_OF[datatype].itemsize * fixed_count)
    return shape


def _name(tensor: object, field: str, position: int) -> str:
    if type(tensor) is not dict:
        raise JsonTypeError(field, "object", f" (element {position} must be an object with a 'name')")
    name = tensor.get("name")
    if type(name) is not str or not name:
        raise JsonTypeError("name", "string", f" (element {position} of '{field}' needs a 'name' that is a string)")
    return name


def _checked_parameters(parameters: object, where: str) -> Mapping[str, Parameter]:
    if type(parameters) is not dict:
        raise JsonTypeError("parameters", "object", f" (those of {where})")
    for name, value in parameters.items():
        if type(value) not in (bool, int, float, str):
            raise InvalidInput(
                f"parameter '{name:.60}' of {where} has invalid type: expected true, false, a number or a string"
            )
        if type(value) is int and not _MIN_INT64 <= value <= _MAX_UINT64:
            raise InvalidInput(f"parameter '{name:.60}' of {where} must fit 64 bits, got {value!r:.40}")
    return parameters
