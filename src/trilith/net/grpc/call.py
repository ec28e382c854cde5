"""One gRPC call as the application sees it.

Rule 1: a call is answered once. A second answer is a mistake of the application and raises `Bug`; an answer after the
call was cancelled (client gone, deadline passed) is none, and does nothing.
Rule 2: `on_cancel`, or the task, is told once, and only if there was no answer.
"""

from __future__ import annotations

import asyncio
import enum
import uuid
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from trilith.errors import Bug, TrilithError
from trilith.wire.grpc_messages import MessageReader
from trilith.wire.grpc_request import CallHead
from trilith.wire.grpc_status import GrpcStatus, grpc_status
from trilith.wire.http2 import Field

_MAX_REQUEST_ID_BYTES: Final = 128


class CallState(enum.IntEnum):
    """How far a call is."""

    RECEIVING = 0
    RUNNING = 1
    ANSWERED = 2
    CANCELLED = 3


_ANSWERED: Final = CallState.ANSWERED
_CANCELLED: Final = CallState.CANCELLED


class CallSink(Protocol):
    """What a call needs of its connection."""

    def send_reply(self, call: GrpcCall, message: bytes, trailers: Sequence[Field]) -> None:
        """Sends head, message and trailers."""
        ...

    def send_failure(self, call: GrpcCall, status: GrpcStatus, message: str) -> None:
        """Sends a status without a message."""
        ...


class GrpcCall:
    """A unary call: one message came, one is to be sent.

    Attributes:
        path: `b"/package.Service/Method"`.
        message: the request message, uncompressed; a read-only view when it came in several frames.
        deadline: absolute instant on the monotonic clock, or None. The server enforces it; use it to give up early.
        received_at: monotonic instant at which the message was complete.
        peer: the client's address, for logs.
        on_cancel: set it in a handler without a task; called once when the client takes the call back, goes away, or
            the deadline passes before the answer.
    """

    __slots__ = (
        "_head",
        "_request_id",
        "deadline",
        "held_bytes",
        "message",
        "on_cancel",
        "path",
        "peer",
        "reader",
        "received_at",
        "sink",
        "state",
        "stream_id",
        "task",
    )

    def __init__(
        self, sink: CallSink, stream_id: int, head: CallHead, *, now: float, deadline: float | None, peer: str
    ) -> None:
        self.sink = sink
        self.stream_id = stream_id
        self.path = head.path
        self.message: bytes | memoryview = b""
        self.deadline = deadline
        self.received_at = now
        self.peer = peer
        self.on_cancel: Callable[[], None] | None = None
        self.state = CallState.RECEIVING
        self.reader: MessageReader | None = None
        self.held_bytes = 0
        self.task: asyncio.Task[None] | None = None
        self._head = head
        self._request_id: str | None = None

    def __repr__(self) -> str:
        path = self.path.decode("latin-1")
        return f"<GrpcCall {path} of {self.peer}, stream {self.stream_id}, {self.state.name.lower()}>"

    @property
    def metadata(self) -> list[Field]:
        """The request's header fields in order, duplicates kept; values of `-bin` names are base64, as they came."""
        return list(self._head.metadata)

    def header(self, name: bytes) -> bytes | None:
        """The first value of a metadata field, or None. `name` in lower case."""
        for candidate, value in self._head.metadata:
            if candidate == name:
                return value
        return None

    @property
    def answered(self) -> bool:
        """True once `reply` or `fail` was called, by the application or by the server on its behalf."""
        return self.state is _ANSWERED

    @property
    def cancelled(self) -> bool:
        """True when nobody waits for the answer any more."""
        return self.state is _CANCELLED

    @property
    def request_id(self) -> str:
        """The client's `x-request-id` when it sent a usable one, else a random one."""
        if self._request_id is None:
            given = self.header(b"x-request-id") or b""
            usable = given.isascii() and 0 < len(given) <= _MAX_REQUEST_ID_BYTES and given.decode("ascii").isprintable()
            self._request_id = given.decode("ascii") if usable else uuid.uuid4().hex
        return self._request_id

    def reply(self, message: bytes | bytearray | memoryview, *, trailers: Sequence[Field] = ()) -> None:
        """Answers with a message and status OK.

        Args:
            message: a serialised protobuf message. Bytes are kept, not copied, when they are many.
            trailers: further trailing metadata, names in lower case.

        Raises:
            Bug: the call was answered before.
        """
        if self._may_answer():
            octets = message if isinstance(message, bytes) else bytes(memoryview(message))
            self.sink.send_reply(self, octets, trailers)
            self.state = _ANSWERED

    def fail(self, status: GrpcStatus, message: str) -> None:
        """Answers with a status and a sentence for the caller.

        Raises:
            Bug: the call was answered before.
        """
        if self._may_answer():
            self.sink.send_failure(self, status, message)
            self.state = _ANSWERED

    def fail_error(self, error: TrilithError) -> None:
        """Answers with the status of an error of the tree, and its message.

        Raises:
            Bug: the call was answered before.
        """
        self.fail(grpc_status(error), error.message)

    def _may_answer(self) -> bool:
        state = self.state
        if state is _ANSWERED:
            path = self.path.decode("latin-1")
            raise Bug(f"{path} was answered twice (request id {self.request_id}): its handler must answer once")
        return state is not _CANCELLED
