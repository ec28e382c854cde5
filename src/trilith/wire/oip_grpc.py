"""Inference messages over gRPC: protobuf bytes <-> `InferRequest` and `InferResponse`.

Rule 1: the data of an input stands in its typed `contents`, or in `raw_input_contents` in the order of the inputs;
    a message does the one or the other.
Rule 2: an answer is always raw. Its data is joined behind the protobuf that describes it, without passing through
    protobuf: concatenated messages merge, so the bytes are the same and a large tensor is copied once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from trilith.core.request import InferRequest, InferResponse, Parameter
from trilith.core.tensor import NUMPY_OF, Array, DataType
from trilith.errors import InvalidInput
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_parameters import InferCall, apply_parameters, classes_wanted, refuse_shared_memory
from trilith.wire.oip_tensor import (
    Signature,
    array_from_raw,
    checked_count,
    checked_datatype,
    object_array,
    raw_from_array,
)

_CONTENTS: Final[dict[DataType, str]] = {
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
_NARROW: Final = frozenset((DataType.INT8, DataType.INT16, DataType.UINT8, DataType.UINT16))
_MAX_INT64: Final = (1 << 63) - 1
_RAW_OUTPUT_TAG: Final = b"\x32"
"""Field 6 (`raw_output_contents`), length-delimited."""


def parse(kind: str, message: bytes | memoryview) -> Any:
    """Reads one protobuf message of the service, by the name of its type (`ModelInferRequest` ...).

    Raises:
        InvalidInput: the bytes are no such message.
    """
    from google.protobuf.message import DecodeError

    parsed = getattr(service_messages(), kind)()
    try:
        parsed.ParseFromString(message)
    except DecodeError as error:
        raise InvalidInput(f"expected a protobuf message inference.{kind}: {error}") from None
    return parsed


def decode_request(message: Any, signature: Signature) -> InferCall:
    """Turns a parsed `ModelInferRequest` into a call.

    Raises:
        InvalidInput: a tensor is malformed; the text says which.
        Unsupported: an extension that is not offered is asked for.
    """
    request = InferRequest(model=signature.model, version=message.model_version, id=message.id, inputs={})
    call = InferCall(request=request)
    raws = message.raw_input_contents
    arrays = request.inputs
    tensors = message.inputs
    for position, tensor in enumerate(tensors):
        name = tensor.name
        if name in arrays:
            raise InvalidInput(f"input '{name}' already exists in request")
        arrays[name] = _input(tensor, name, raws[position] if position < len(raws) else None, bool(raws), signature)
    if len(raws) > len(tensors):
        raise InvalidInput(
            f"unexpected additional input data for model '{signature.model}': {len(raws)} raw_input_contents for "
            f"{len(tensors)} inputs"
        )
    if message.parameters:
        apply_parameters(call, parameters_of(message.parameters))
    if message.outputs:
        request.outputs = _outputs(message.outputs, call)
    return call


def encode_response(response: InferResponse, signature: Signature) -> bytes:
    """Writes a `ModelInferResponse`.

    Raises:
        ModelError: an output has no protocol datatype.
    """
    message = service_messages().ModelInferResponse(
        model_name=response.model, model_version=response.version, id=response.id
    )
    parts: list[bytes | memoryview] = [b""]
    for name, array in response.outputs.items():
        datatype = signature.output_datatype(name, array)
        message.outputs.add(name=name, datatype=datatype.value, shape=array.shape)
        raw = raw_from_array(signature, name, datatype, array)
        parts += (_RAW_OUTPUT_TAG, _varint(memoryview(raw).nbytes), raw)
    for name, value in response.parameters.items():
        _set_parameter(message.parameters[name], value)
    parts[0] = message.SerializeToString()
    return b"".join(parts)


def parameters_of(parameters: Mapping[str, Any]) -> dict[str, Parameter]:
    """A map of `InferParameter` as plain values.

    Raises:
        InvalidInput: one of them is empty.
    """
    values: dict[str, Parameter] = {}
    for name, parameter in parameters.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise InvalidInput(f"parameter '{name:.60}' holds no value")
        values[name] = getattr(parameter, choice)
    return values


def _input(tensor: Any, name: str, raw: bytes | None, message_is_raw: bool, signature: Signature) -> Array:
    datatype = checked_datatype(signature, name, tensor.datatype)
    shape = tuple(tensor.shape)
    count = checked_count(name, shape)
    if tensor.parameters:
        refuse_shared_memory(tensor.parameters, "input", name)
    if not message_is_raw:
        return _array_from_contents(signature, name, datatype, shape, count, tensor.contents)
    if tensor.HasField("contents"):
        raise InvalidInput(
            f"contents field must not be specified when using raw_input_contents for input '{name}' for model "
            f"'{signature.model}'"
        )
    if raw is None:
        raise InvalidInput(
            f"input '{name}' for model '{signature.model}' has no data: raw_input_contents must hold one entry an input"
        )
    return array_from_raw(signature, name, datatype, shape, count, raw)


def _array_from_contents(
    signature: Signature, name: str, datatype: DataType, shape: tuple[int, ...], count: int, contents: Any
) -> Array:
    field = _CONTENTS.get(datatype)
    if field is None:
        raise InvalidInput(
            f"{datatype} has no typed contents; send input '{name}' for model '{signature.model}' in raw_input_contents"
        )
    for other, _ in contents.ListFields():
        if other.name != field:
            raise InvalidInput(
                f"unexpected '{other.name}' for input '{name}' for model '{signature.model}': {datatype} stands in "
                f"'{field}'"
            )
    values = getattr(contents, field)
    if len(values) != count:
        raise InvalidInput(
            f"unexpected number of elements {len(values)} in '{field}' for input '{name}' for model "
            f"'{signature.model}', expecting {count} for shape {list(shape)}"
        )
    if datatype is DataType.BYTES:
        return object_array(list(values), shape)
    dtype = NUMPY_OF[datatype]
    if datatype in _NARROW and count:
        limits = np.iinfo(dtype)
        if min(values) < limits.min or max(values) > limits.max:
            raise InvalidInput(
                f"input '{name}' for model '{signature.model}': every element of '{field}' must be from {limits.min} "
                f"to {limits.max} for {datatype}"
            )
    return np.fromiter(values, dtype, count).reshape(shape)


def _outputs(outputs: Any, call: InferCall) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for output in outputs:
        name = output.name
        if name in names:
            raise InvalidInput(f"output '{name}' already exists in request")
        names[name] = None
        if output.parameters:
            refuse_shared_memory(output.parameters, "output", name)
            count = classes_wanted(parameters_of(output.parameters), name)
            if count:
                call.classes[name] = count
    return tuple(names)


def _set_parameter(parameter: Any, value: Parameter) -> None:
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, str):
        parameter.string_param = value
    elif isinstance(value, float):
        parameter.double_param = value
    elif value > _MAX_INT64:
        parameter.uint64_param = value
    else:
        parameter.int64_param = value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
