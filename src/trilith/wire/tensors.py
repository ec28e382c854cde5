"""Requests and answers of models between the processes of one machine: a msgpack header, and one raw buffer a tensor.

Rule 1: a tensor is not copied where its memory is already C-ordered and little-endian, on either side.
Rule 2: nothing of what arrives is believed: names, datatypes, shapes and sizes are checked, and what does not fit is
    an `InvalidInput` that says which tensor.
Rule 3: the header is an array of fields in a fixed order; new fields go to the end, with a default.

BYTES tensors travel as the protocol's own form: each element a 4-byte little-endian length and its bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from trilith.core.request import InferRequest, InferResponse, Parameter
from trilith.core.tensor import DATATYPES, NUMPY_OF, Array, DataType, TensorSpec, datatype_of
from trilith.errors import InvalidInput, ModelError
from trilith.wire.oip_tensor import Signature, array_from_raw, checked_count, raw_from_array, unknown_datatype

Buffer = bytes | bytearray | memoryview
_HeadT = TypeVar("_HeadT")
TensorHead = tuple[str, str, tuple[int, ...]]
"""Name, datatype and shape of a tensor whose bytes travel beside it."""


class _RequestHead(msgspec.Struct, array_like=True, frozen=True):
    model: str
    version: str
    tensors: list[TensorHead]
    outputs: tuple[str, ...] = ()
    id: str = ""
    parameters: dict[str, Parameter] = {}
    priority: int = 0
    timeout_us: int = 0


class _ResponseHead(msgspec.Struct, array_like=True, frozen=True):
    model: str
    version: str
    tensors: list[TensorHead]
    id: str = ""
    parameters: dict[str, Parameter] = {}


_encoder: Final = msgspec.msgpack.Encoder()
_request_decoder: Final = msgspec.msgpack.Decoder(_RequestHead)
_response_decoder: Final = msgspec.msgpack.Decoder(_ResponseHead)


def pack_request(request: InferRequest, *, datatypes: Mapping[str, DataType] | None = None) -> list[Buffer]:
    """A request as `[header, tensor, tensor, ...]`. The buffers share memory with its arrays.

    Args:
        request: what to send.
        datatypes: by input, where the array does not tell (BF16).

    Raises:
        InvalidInput: an array has a dtype that no tensor can have.
    """
    heads, buffers = pack_tensors(request.model, request.inputs, datatypes or {})
    head = _RequestHead(
        request.model,
        request.version,
        heads,
        request.outputs,
        request.id,
        request.parameters,
        request.priority,
        request.timeout_us,
    )
    return [_encoder.encode(head), *buffers]


def unpack_request(buffers: Sequence[Buffer]) -> InferRequest:
    """The inverse of `pack_request`. The arrays share memory with the buffers, and are read-only if those are.

    Raises:
        InvalidInput: the buffers are not such a request.
    """
    head = _decode(_request_decoder, buffers)
    return InferRequest(
        model=head.model,
        version=head.version,
        inputs=unpack_tensors(head.model, head.tensors, buffers[1:]),
        outputs=head.outputs,
        id=head.id,
        parameters=head.parameters,
        priority=head.priority,
        timeout_us=head.timeout_us,
    )


def pack_response(response: InferResponse, *, outputs: Sequence[TensorSpec] = ()) -> list[Buffer]:
    """An answer as `[header, tensor, tensor, ...]`. The buffers share memory with its arrays.

    Args:
        response: what to send.
        outputs: the model's outputs, where the arrays do not tell their datatypes (BF16).

    Raises:
        InvalidInput: an array has a dtype that no tensor can have.
    """
    datatypes = {spec.name: spec.datatype for spec in outputs}
    heads, buffers = pack_tensors(response.model, response.outputs, datatypes)
    head = _ResponseHead(response.model, response.version, heads, response.id, response.parameters)
    return [_encoder.encode(head), *buffers]


def unpack_response(buffers: Sequence[Buffer]) -> InferResponse:
    """The inverse of `pack_response`. The arrays share memory with the buffers, and are read-only if those are.

    Raises:
        InvalidInput: the buffers are not such an answer.
    """
    head = _decode(_response_decoder, buffers)
    return InferResponse(
        model=head.model,
        version=head.version,
        outputs=unpack_tensors(head.model, head.tensors, buffers[1:]),
        id=head.id,
        parameters=head.parameters,
    )


def pack_tensors(
    model: str, tensors: Mapping[str, Array], datatypes: Mapping[str, DataType]
) -> tuple[list[TensorHead], list[Buffer]]:
    """What is said of the tensors of one message, and their buffers, which share memory with the arrays.

    Args:
        model: its name, for messages.
        tensors: by name.
        datatypes: by name, where the array does not tell (BF16).

    Raises:
        InvalidInput: an array has a dtype that no tensor can have.
    """
    signature = _signature(model)
    heads: list[TensorHead] = []
    buffers: list[Buffer] = []
    for name, array in tensors.items():
        datatype = datatypes.get(name)
        if datatype is None or NUMPY_OF[datatype] != array.dtype:
            datatype = _datatype(model, name, array)
        heads.append((name, str(datatype), array.shape))
        try:
            buffers.append(_flat(raw_from_array(signature, name, datatype, array)))
        except ModelError as error:
            raise InvalidInput(error.message) from error
    return heads, buffers


@functools.lru_cache(256)
def _signature(model: str) -> Signature:
    return Signature(model=model)


def _flat(raw: memoryview | bytes) -> Buffer:
    """The bytes of an array's memory in one dimension, as transports count them."""
    if isinstance(raw, bytes):
        return raw
    return raw.cast("B") if raw.nbytes else b""


def _datatype(model: str, name: str, array: Array) -> DataType:
    try:
        return datatype_of(array)
    except TypeError as error:
        raise InvalidInput(f"tensor '{name}' of model '{model}': {error}") from error


def _decode(decoder: msgspec.msgpack.Decoder[_HeadT], buffers: Sequence[Buffer]) -> _HeadT:
    if not buffers:
        raise InvalidInput("expected a header and one buffer for each tensor, got no buffers")
    try:
        return decoder.decode(buffers[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the header of a tensor message could not be read: {error}") from error


def unpack_tensors(model: str, heads: Sequence[TensorHead], buffers: Sequence[Buffer]) -> dict[str, Array]:
    """The inverse of `pack_tensors`. The arrays share memory with the buffers, and are read-only if those are.

    Raises:
        InvalidInput: heads and buffers do not fit each other.
    """
    if len(heads) != len(buffers):
        raise InvalidInput(
            f"model '{model}': the header names {len(heads)} tensors, but {len(buffers)} buffers came with it"
        )
    signature = _signature(model)
    tensors: dict[str, Array] = {}
    for (name, word, shape), raw in zip(heads, buffers, strict=True):
        datatype = DATATYPES.get(word)
        if datatype is None:
            raise unknown_datatype(f"tensor '{name}' of model '{model}'", word)
        if name in tensors:
            raise InvalidInput(f"tensor '{name}' of model '{model}' comes twice")
        count = checked_count(name, shape)
        view = raw if isinstance(raw, bytes) else memoryview(raw)
        if isinstance(view, memoryview) and view.format != "B":
            raise InvalidInput(
                f"tensor '{name}' of model '{model}': expected a buffer of bytes, got items {view.format}"
            )
        tensors[name] = array_from_raw(signature, name, datatype, shape, count, view)
    return tensors
