"""The envelope of one call between the gateway and a worker: who is called, and how the buffers are encoded.

Rule 1: an envelope is msgpack, an array of fields in a fixed order; new fields go to the end, with a default.
Rule 2: the values themselves never enter an envelope. They are the buffers beside it, in `content_type`'s encoding.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trilith.core.identity import Identity
from trilith.errors import InvalidInput

NATIVE_CONTENT_TYPE: Final = "application/x-trilith"
"""Arguments and results between services: a msgpack header and one raw buffer for each large value."""

MESSAGE_CONTENT_TYPE: Final = "application/grpc+proto"
"""A protobuf message of the method's gRPC service, without gRPC's prefix."""

TENSORS_CONTENT_TYPE: Final = "application/x-trilith-tensors"
"""A model's tensors: a msgpack header and one raw buffer for each tensor."""


NOT_BEGUN_HEADER: Final = "trilith-not-begun"
"""An HTTP answer has it, as `1`, when the call was refused before its method was begun: it may be sent again."""

FLAG_STREAM: Final = 2
"""Frame flag of a call: it has items, either way. A batch's is `trilith.wire.batches.FLAG_BATCH`."""


class CallMeta(msgspec.Struct, array_like=True, frozen=True):
    """What a call says beside its values.

    Attributes:
        service: the service's name; "" for a model call.
        method: the method's name.
        content_type: encoding of the buffers, as the HTTP client sent it, or `application/x-trilith` between services.
        request_id: text that appears in answers, errors and logs.
        headers: the caller's request headers that the service may read (`accept` among them), keys in lower case.
        trace: whether the answer must carry its timeline.
        query: the raw query string of the HTTP request.
        client: the address of the client, `host:port`.
        identity: who the caller is, when that was checked.
    """

    service: str
    method: str
    content_type: str
    request_id: str
    headers: dict[str, str] | None = None
    trace: bool = False
    query: str = ""
    client: str = ""
    identity: Identity | None = None


class ResultMeta(msgspec.Struct, array_like=True, frozen=True):
    """What an answer says beside its values.

    Attributes:
        content_type: encoding of the buffers.
        timeline: `Timeline.to_builtins()` when the call asked for it, else None.
        status: of the answer over HTTP.
        headers: further headers of it, checked where they were set.
    """

    content_type: str
    timeline: Any = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


_encoder: Final = msgspec.msgpack.Encoder()
_call_decoder: Final = msgspec.msgpack.Decoder(CallMeta)
_result_decoder: Final = msgspec.msgpack.Decoder(ResultMeta)


def pack_meta(meta: CallMeta | ResultMeta) -> bytes:
    """The envelope as msgpack."""
    return _encoder.encode(meta)


def pack_call(
    service: str,
    method: str,
    content_type: str,
    request_id: str,
    headers: dict[str, str] | msgspec.Raw | None,
    *,
    trace: bool,
    query: str,
    client: str,
    identity: Identity | None,
) -> bytes:
    """The envelope of the `CallMeta` with these fields, which is not made: the way of each request.

    Args:
        headers: may be packed already (`pack_headers`).
    """
    return _encoder.encode((service, method, content_type, request_id, headers, trace, query, client, identity))


def pack_headers(headers: dict[str, str]) -> msgspec.Raw:
    """The headers of an envelope by themselves, for many envelopes."""
    return msgspec.Raw(_encoder.encode(headers))


def unpack_call(raw: bytes | memoryview) -> CallMeta:
    """The inverse of `pack_meta` for a call.

    Raises:
        InvalidInput: the bytes are not such an envelope.
    """
    try:
        return _call_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"a call's envelope could not be read: {error}") from error


def unpack_result(raw: bytes | memoryview) -> ResultMeta:
    """The inverse of `pack_meta` for an answer.

    Raises:
        InvalidInput: the bytes are not such an envelope.
    """
    try:
        return _result_decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"an answer's envelope could not be read: {error}") from error
