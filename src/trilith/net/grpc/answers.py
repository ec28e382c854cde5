"""The header lists of answers: constants where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.errors import PayloadTooLarge
from trilith.wire.grpc_compression import ACCEPTED, GrpcCompression
from trilith.wire.grpc_messages import list_bytes, status_trailers
from trilith.wire.grpc_metadata import check_metadata
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import EncodedHeaders, Field

_HEAD: Final[tuple[Field, ...]] = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_ACCEPTS: Final[tuple[Field, ...]] = ((b"grpc-accept-encoding", ACCEPTED),)

OK_HEAD: Final = EncodedHeaders(_HEAD)
"""The head before a message."""

_OK_TRAILERS: Final = EncodedHeaders(status_trailers(GrpcStatus.OK))


def ok_trailers(extra: Sequence[Field], max_list_bytes: int | None = None) -> EncodedHeaders:
    """The trailers after a message.

    Raises:
        ServiceError: a field cannot be sent.
        PayloadTooLarge: the client takes no list of that length.
    """
    if not extra:
        return _OK_TRAILERS
    check_metadata(extra)
    return _fitting([*status_trailers(GrpcStatus.OK), *extra], max_list_bytes)


def head(
    metadata: Sequence[Field], compression: GrpcCompression | None = None, max_list_bytes: int | None = None
) -> EncodedHeaders:
    """The head of an answer, with initial metadata. Raises what `ok_trailers` does."""
    check_metadata(metadata)
    encoding = () if compression is None else ((b"grpc-encoding", compression.name),)
    if not metadata and not encoding:
        return OK_HEAD
    fields = [*_HEAD, *encoding, *metadata]
    return _fitting(fields, max_list_bytes) if metadata else EncodedHeaders(fields)


def failure(
    status: GrpcStatus, message: str, extra: Sequence[Field] = (), max_list_bytes: int | None = None
) -> EncodedHeaders:
    """The only header list of an answer without a message ("trailers only"); see `status_trailers`."""
    # An unknown encoding is answered like this, and the client is told which are known (compression.md of gRPC).
    check_metadata(extra)
    fields = (*_HEAD, *(_ACCEPTS if status is GrpcStatus.UNIMPLEMENTED else ()))
    left = None if max_list_bytes is None else max_list_bytes - list_bytes(fields)
    return EncodedHeaders([*fields, *status_trailers(status, message, extra, max_list_bytes=left)])


def failure_trailers(
    status: GrpcStatus, message: str, extra: Sequence[Field] = (), max_list_bytes: int | None = None
) -> EncodedHeaders:
    """The trailers of an answer that went wrong after it had begun; see `status_trailers`."""
    check_metadata(extra)
    return EncodedHeaders(status_trailers(status, message, extra, max_list_bytes=max_list_bytes))


def refusal(http_status: int) -> EncodedHeaders:
    """The answer to a request that is no gRPC call: an HTTP status, as the protocol wants."""
    trailers = status_trailers(GrpcStatus.UNKNOWN, "expected POST with content-type application/grpc")
    return EncodedHeaders([(b":status", b"%d" % http_status), *trailers])


def _fitting(fields: Sequence[Field], max_list_bytes: int | None) -> EncodedHeaders:
    size = list_bytes(fields)
    if max_list_bytes is not None and size > max_list_bytes:
        raise PayloadTooLarge(
            f"the metadata of the answer has {size} bytes, over the {max_list_bytes} that the client takes "
            "(its SETTINGS_MAX_HEADER_LIST_SIZE)"
        )
    return EncodedHeaders(fields)
