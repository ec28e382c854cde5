"""What a call needs of its connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import Field

if TYPE_CHECKING:
    from trilith.net.grpc.call import GrpcCall


class CallSink(Protocol):
    """What a call needs of its connection.

    Attributes:
        draining: the client was asked to go elsewhere.
    """

    draining: bool

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The client's certificate as `ssl.SSLSocket.getpeercert` gives it."""
        ...

    def next_request_id(self) -> str:
        """An id for a call whose client gave none."""
        ...

    def send_reply(self, call: GrpcCall, message: bytes, trailers: Sequence[Field]) -> None:
        """Sends what is left of head, message and trailers."""
        ...

    def send_failure(self, call: GrpcCall, status: GrpcStatus, message: str, trailers: Sequence[Field] = ()) -> None:
        """Ends the call with a status, behind what was sent."""
        ...

    def send_head(self, call: GrpcCall, metadata: Sequence[Field]) -> None:
        """Sends the head of an answer in parts."""
        ...

    def send_message(self, call: GrpcCall, message: bytes) -> bool:
        """Sends a message; False when the sender should wait for `call.room`."""
        ...

    def send_end(self, call: GrpcCall, trailers: Sequence[Field]) -> None:
        """Ends the call with OK, behind what was sent."""
        ...
