"""Requests for a model's process and its answers, a whole batch in one frame.

Rule 1: one header for the batch, and the raw tensors of all its requests in order; nothing is copied here.
Rule 2: each request has its own outcome. What one answers badly is that one's error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from trilith.core.request import Parameter
from trilith.core.tensor import Array, DataType
from trilith.errors import ModelError, TrilithError
from trilith.wire.tensors import Buffer, TensorHead, pack_tensors, unpack_tensors


class RequestHead(msgspec.Struct, array_like=True, frozen=True):
    """One request of a batch, as the process sees it.

    Attributes:
        tensors: its inputs.
        outputs: names of the outputs wanted.
        id: the caller's own id.
        parameters: of the request, without those that Triton reads itself.
        correlation_id: of the sequence; 0 for none.
        timeout_us: the caller's time limit in microseconds; 0 for none.
        priority: 0 for the model's default.
        flags: Triton's request flags.
    """

    tensors: list[TensorHead]
    outputs: tuple[str, ...]
    id: str = ""
    parameters: dict[str, Parameter] = {}
    correlation_id: int | str = 0
    timeout_us: int = 0
    priority: int = 0
    flags: int = 0


class AnswerHead(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of one request. `code` is that of a class of `trilith.errors`, "" when it succeeded."""

    tensors: list[TensorHead] = []
    parameters: dict[str, Parameter] = {}
    code: str = ""
    message: str = ""


class BatchAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of a batch: an answer each, or `failure`, which is then everybody's."""

    answers: list[AnswerHead]
    failure: str = ""


_encoder: Final = msgspec.msgpack.Encoder()
_requests: Final = msgspec.msgpack.Decoder(list[RequestHead])
_answer: Final = msgspec.msgpack.Decoder(BatchAnswer)


def encode_requests(heads: Sequence[RequestHead]) -> bytes:
    """The metadata of a batch's call."""
    return _encoder.encode(heads)


def decode_requests(model: str, meta: bytes, buffers: Sequence[Buffer]) -> list[tuple[RequestHead, dict[str, Array]]]:
    """The requests of a batch, each with its inputs by name; these share memory with the buffers."""
    found: list[tuple[RequestHead, dict[str, Array]]] = []
    at = 0
    for head in _requests.decode(meta):
        count = len(head.tensors)
        found.append((head, unpack_tensors(model, head.tensors, buffers[at : at + count])))
        at += count
    return found


def encode_answer(answer: BatchAnswer) -> bytes:
    """The metadata of a batch's result. Half a surrogate pair in a model's text becomes a question mark."""
    try:
        return _encoder.encode(answer)
    except UnicodeEncodeError:
        return _encoder.encode(_sendable(msgspec.to_builtins(answer)))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_sendable(key): _sendable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(entry) for entry in value]
    return value


def decode_answer(model: str, meta: bytes, requests: int) -> BatchAnswer:
    """The outcome of a batch of so many `requests`.

    Raises:
        ModelError: it is none, or has not as many answers.
    """
    try:
        answer = _answer.decode(meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"model '{model}': the answer of its process cannot be read: {error}") from error
    if not answer.failure and len(answer.answers) != requests:
        raise ModelError(f"model '{model}': its process answered {len(answer.answers)} of {requests} requests")
    return answer


def pack_inputs(
    model: str, inputs: Mapping[str, Array], datatypes: Mapping[str, DataType]
) -> tuple[list[TensorHead], list[Buffer]]:
    """The inputs of one request; see `pack_tensors`.

    Raises:
        ModelError: never for inputs that were validated.
    """
    try:
        return pack_tensors(model, inputs, datatypes)
    except TrilithError as error:
        raise ModelError(error.message) from error
