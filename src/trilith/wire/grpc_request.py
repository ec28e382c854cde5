"""What the head of an HTTP/2 request means to gRPC. Computed once for each distinct head (`RequestHead.memo`)."""

from __future__ import annotations

from typing import Final

from trilith.errors import InvalidInput, MethodNotAllowed, Unsupported, UnsupportedMediaType
from trilith.wire.grpc_compression import ACCEPTED, is_known
from trilith.wire.grpc_messages import parse_timeout
from trilith.wire.http2 import Field, RequestHead
from trilith.wire.http_status import status_of

_CONTENT_TYPE: Final = b"application/grpc"

NOT_A_POST: Final = status_of(MethodNotAllowed)
NOT_GRPC: Final = status_of(UnsupportedMediaType)
"""HTTP statuses of what is no gRPC call: by its method, by its content type."""


class CallHead:
    """The head of one gRPC call. Shared between calls with equal heads: treat it as constant.

    Attributes:
        path: `/package.Service/Method`.
        metadata: all header fields in order, duplicates kept, `-bin` values as they came (base64).
        timeout_s: of `grpc-timeout`, or None.
        http_status: 200, or the HTTP status with which a request that is no gRPC call is refused.
        encoding: of compressed messages, or None when the client compresses none.
        accepts: the encodings in which the client reads answers.
        error: why the call cannot be served although it is one, or None.
    """

    __slots__ = ("accepts", "encoding", "error", "http_status", "metadata", "path", "timeout_s")

    def __init__(self, head: RequestHead) -> None:
        self.path = head.path
        self.metadata: tuple[Field, ...] = head.fields
        self.http_status = _http_status(head)
        self.timeout_s: float | None = None
        self.error: InvalidInput | Unsupported | None = None
        encoding = head.field(b"grpc-encoding")
        self.encoding = None if encoding == b"identity" else encoding
        self.accepts = _accepted(head)
        if self.encoding is not None and not is_known(self.encoding):
            shown = self.encoding.decode("latin-1")
            self.error = Unsupported(
                f"grpc-encoding: expected one of {ACCEPTED.decode()}, got {shown!r}: send the call in one of them"
            )
        timeout = head.field(b"grpc-timeout")
        if timeout is not None:
            try:
                self.timeout_s = parse_timeout(timeout)
            except InvalidInput as error:
                self.error = error


def call_head(head: RequestHead) -> CallHead:
    """The gRPC reading of a head; the same object each time."""
    memo = head.memo
    if isinstance(memo, CallHead):
        return memo
    read = CallHead(head)
    head.memo = read
    return read


def _accepted(head: RequestHead) -> frozenset[bytes]:
    values = [value for name, value in head.fields if name == b"grpc-accept-encoding"]
    return frozenset(each.strip() for value in values for each in value.split(b","))


def _http_status(head: RequestHead) -> int:
    if head.method != b"POST":
        return NOT_A_POST
    content_type = head.field(b"content-type") or b""
    rest = content_type[len(_CONTENT_TYPE) :]
    if content_type[: len(_CONTENT_TYPE)] != _CONTENT_TYPE or rest[:1] not in (b"", b"+", b";"):
        return NOT_GRPC
    return 200
