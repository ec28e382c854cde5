"""The header lists of answers: constants where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.wire.grpc_compression import ACCEPTED, GrpcCompression
from trilith.wire.grpc_messages import status_trailers
from trilith.wire.grpc_metadata import check_metadata
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import EncodedHeaders, Field

_HEAD: Final[tuple[Field, ...]] = ((b":status", b"200"), (b"content-type", b"application/grpc"))
_ACCEPTS: Final[tuple[Field, ...]] = ((b"grpc-accept-encoding", ACCEPTED),)

OK_HEAD: Final = EncodedHeaders(_HEAD)
"""The head before a message."""

_OK_TRAILERS: Final = EncodedHeaders(status_trailers(GrpcStatus.OK))


def ok_trailers(extra: Sequence[Field]) -> EncodedHeaders:
    """The trailers after a message."""
    if not extra:
        return _OK_TRAILERS
    check_metadata(extra)
    return EncodedHeaders(status_trailers(GrpcStatus.OK, extra=extra))


def head(metadata: Sequence[Field], compression: GrpcCompression | None = None) -> EncodedHeaders:
    """The head of an answer, with initial metadata."""
    check_metadata(metadata)
    if compression is not None:
        return EncodedHeaders([*_HEAD, (b"grpc-encoding", compression.name), *metadata])
    return EncodedHeaders([*_HEAD, *metadata]) if metadata else OK_HEAD


def failure(status: GrpcStatus, message: str, extra: Sequence[Field] = ()) -> EncodedHeaders:
    """The only header list of an answer without a message ("trailers only")."""
    # An unknown encoding is answered like this, and the client is told which are known (compression.md of gRPC).
    check_metadata(extra)
    accepts = _ACCEPTS if status is GrpcStatus.UNIMPLEMENTED else ()
    return EncodedHeaders([*_HEAD, *accepts, *status_trailers(status, message, extra)])


def failure_trailers(status: GrpcStatus, message: str, extra: Sequence[Field] = ()) -> EncodedHeaders:
    """The trailers of an answer that went wrong after it had begun."""
    check_metadata(extra)
    return EncodedHeaders(status_trailers(status, message, extra))


def refusal(http_status: int) -> EncodedHeaders:
    """The answer to a request that is no gRPC call: an HTTP status, as the protocol wants."""
    trailers = status_trailers(GrpcStatus.UNKNOWN, "expected POST with content-type application/grpc")
    return EncodedHeaders([(b":status", b"%d" % http_status), *trailers])
