"""One gRPC call as the application sees it: of all four kinds.

    one message in, one out     `call.message`, then `call.reply(...)`
    one in, many out            `call.message`, then `await call.send(...)` as often as wanted, then `call.finish()`
    many in, one or many out    `async for message in call.messages()`, and either way of answering, in any order

    without a task              `call.send_now(...)` and `call.on_room`, `call.messages().take()` and `.on_change`

Rule 1: a call is answered once, by `reply`, `finish` or `fail`. A second answer is a mistake of the application and
raises `Bug`; an answer after the call was cancelled (client gone, deadline passed) is none, and does nothing.
Rule 2: `on_cancel`, or the task, is told once, and only if there was no answer.
Rule 3: both ways are held back. What is not read is not granted to the client again; `send` waits while much waits.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from trilith.core.identity import Identity
from trilith.core.logs import Accesses
from trilith.errors import Bug, Cancelled, TrilithError
from trilith.net.grpc.inbox import MessageInbox
from trilith.net.grpc.port import CallSink
from trilith.net.request_log import grpc_answered, grpc_failed
from trilith.wire.grpc_compression import GrpcCompression
from trilith.wire.grpc_messages import Compressed, Message, MessageReader
from trilith.wire.grpc_metadata import binary_values
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


class GrpcCall:
    """One call, from its head to its status.

    Attributes:
        compression: how messages of the answer are compressed if the client accepts that, or None; the server's unless
            set before the first of them.
        path: `b"/package.Service/Method"`.
        message: the request message, uncompressed; a read-only view when it came in several frames. Empty when the
            client may send many (see `GrpcServer`): those come from `messages`.
        deadline: absolute instant on the monotonic clock, or None. The server enforces it; use it to give up early.
        received_at: monotonic instant at which the message was complete.
        peer: the client's address, for logs.
        identity: who the client is, when that was checked.
        attachment: what an application keeps with the call.
        hidden: names of fields that the application does not see.
        message_limit: the longest message that this client may send, when that is less than the server's; else None.
        allows_model: whether the client may ask a model, by its name; set when it may not ask all of them.
        on_end: called once when the call has its outcome.
        on_cancel: set it in a handler without a task; called once when the client takes the call back, goes away, or
            the deadline passes before the answer.
        on_room: set it in a handler without a task that sends by `send_now`; called when there is room again.
        on_drain: called once when the connection asks its client to go elsewhere (the server stops, or the connection
            has its age): a call without a natural end should end now.
    """

    __slots__ = (
        "_head",
        "_request_id",
        "allows_model",
        "attachment",
        "compression",
        "deadline",
        "encoder",
        "head_sent",
        "held_bytes",
        "hidden",
        "identity",
        "inbox",
        "message",
        "message_limit",
        "on_cancel",
        "on_drain",
        "on_end",
        "on_room",
        "path",
        "peer",
        "reader",
        "received_at",
        "room",
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
        self.compression: GrpcCompression | None = None
        self.encoder: GrpcCompression | None = None
        self.identity: Identity | None = None
        self.attachment: object = None
        self.hidden: Collection[bytes] = ()
        self.message_limit: int | None = None
        self.allows_model: Callable[[str], bool] | None = None
        self.on_end: Callable[[], None] | None = None
        self.on_cancel: Callable[[], None] | None = None
        self.on_drain: Callable[[], None] | None = None
        self.on_room: Callable[[], None] | None = None
        self.state = CallState.RECEIVING
        self.reader: MessageReader | None = None
        self.inbox: MessageInbox | None = None
        self.room: asyncio.Event | None = None
        self.head_sent = False
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
        fields = self._head.metadata
        return [field for field in fields if field[0] not in self.hidden] if self.hidden else list(fields)

    @property
    def metadata_fields(self) -> tuple[Field, ...]:
        """The same as a tuple, which calls with equal heads share."""
        return tuple(self.metadata) if self.hidden else self._head.metadata

    def header(self, name: bytes) -> bytes | None:
        """The first value of a metadata field, or None. `name` in lower case."""
        for candidate, value in self._head.metadata:
            if candidate == name:
                return value
        return None

    def binary_values(self, name: bytes) -> list[bytes]:
        """All values of a metadata field whose name ends in `-bin`, in order, as octets.

        Raises:
            InvalidInput: one is no base64.
        """
        return binary_values(self._head.metadata, name)

    @property
    def encoding(self) -> bytes | None:
        """The encoding of the client's compressed messages (they are inflated before they are here), or None."""
        return self._head.encoding

    def accepts(self, encoding: bytes) -> bool:
        """True when the client reads answers in this encoding."""
        return encoding in self._head.accepts

    @property
    def answered(self) -> bool:
        """True once `reply`, `finish` or `fail` was called, by the application or by the server on its behalf."""
        return self.state is _ANSWERED

    @property
    def cancelled(self) -> bool:
        """True when nobody waits for the answer any more."""
        return self.state is _CANCELLED

    @property
    def draining(self) -> bool:
        """True once the connection has asked its client to go elsewhere; `on_drain` tells when that begins."""
        return self.sink.draining

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The client's certificate, verified by TLS, as `ssl.SSLSocket.getpeercert` gives it; None without one."""
        return self.sink.peer_certificate

    @property
    def request_id(self) -> str:
        """The client's `x-request-id` when it sent a usable one, else a new one."""
        if self._request_id is None:
            given = self.header(b"x-request-id") or b""
            usable = given.isascii() and 0 < len(given) <= _MAX_REQUEST_ID_BYTES and given.decode("ascii").isprintable()
            self._request_id = given.decode("ascii") if usable else self.sink.next_request_id()
        return self._request_id

    def reply(self, message: bytes | bytearray | memoryview, *, trailers: Sequence[Field] = ()) -> None:
        """Answers with a message and status OK.

        Args:
            message: a serialised protobuf message. Bytes are kept, not copied, when they are many.
            trailers: further trailing metadata; see `metadata_field`.

        Raises:
            Bug: the call was answered before.
            ServiceError: a field of the metadata cannot be sent; the call is still open then.
        """
        # Metadata that is longer than the client takes becomes the status: sent, it would end the call obscurely.
        if self._may_answer():
            octets = message if isinstance(message, bytes) else bytes(memoryview(message))
            self.sink.send_reply(self, octets, trailers)
            self.state = _ANSWERED
            if Accesses.on:
                grpc_answered(self, GrpcStatus.OK, len(octets))

    def messages(self) -> MessageInbox:
        """The messages of the client, as they come; it is held back while nobody reads. To be read by one task.

        Reading raises `Cancelled` when the call is over, and what is wrong with a message when one cannot be read.
        """
        if self.inbox is None:  # one message, which is here
            self.inbox = MessageInbox(_ignore, _ignore, _same)
            self.inbox.received(0, [self.message])
            self.inbox.end()
        return self.inbox

    def begin(self, metadata: Sequence[Field] = ()) -> None:
        """Sends the head of the answer, before the first message is known.

        Args:
            metadata: initial metadata, names in lower case; see `metadata_field` for binary values.

        Raises:
            Bug: the call was answered before, or its head was sent.
            PayloadTooLarge: the client takes no metadata of that length.
        """
        if self._may_answer():
            if self.head_sent:
                raise Bug(f"{self!r}: the head was sent before; initial metadata goes out once, before all messages")
            self.sink.send_head(self, metadata)

    async def send(self, message: bytes | bytearray | memoryview) -> None:
        """Sends one of several messages; returns when the next one may come. `finish` or `fail` ends the answer.

        Raises:
            Cancelled: nobody waits for it any more.
            PayloadTooLarge: it is over the limit of the server (`max_response_bytes`).
            Bug: the call was answered before.
        """
        if not self._may_answer():
            raise Cancelled("the client took the call back, or its deadline has passed")
        if self.send_now(message):
            return
        room = self.room
        if room is None:
            room = self.room = asyncio.Event()
        room.clear()
        await room.wait()
        if self.state is _CANCELLED:
            raise Cancelled("the client took the call back, or its deadline has passed")

    def send_now(self, message: bytes | bytearray | memoryview) -> bool:
        """Sends one of several messages; whether the next one may come now, or when `on_room` is called.

        Raises:
            PayloadTooLarge: it is over the limit of the server (`max_response_bytes`).
            Bug: the call was answered before.
        """
        if not self._may_answer():
            return False
        octets = message if isinstance(message, bytes) else bytes(memoryview(message))
        return self.sink.send_message(self, octets)

    def finish(self, *, trailers: Sequence[Field] = ()) -> None:
        """Ends an answer in parts with status OK, behind all messages sent.

        Raises:
            Bug: the call was answered before.
        """
        if self._may_answer():
            self.sink.send_end(self, trailers)
            self.state = _ANSWERED
            if Accesses.on:
                grpc_answered(self, GrpcStatus.OK)

    def fail(self, status: GrpcStatus, message: str, *, trailers: Sequence[Field] = ()) -> None:
        """Answers with a status and a sentence for the caller, behind the messages that were sent.

        Args:
            status: what is wrong.
            message: for a person.
            trailers: further trailing metadata, `grpc-status-details-bin` for one.

        Raises:
            Bug: the call was answered before.
        """
        if self._may_answer():
            grpc_failed(self, status, message)
            self.sink.send_failure(self, status, message, trailers)
            self.state = _ANSWERED
            if Accesses.on:
                grpc_answered(self, status)

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


def _ignore(_: int) -> None:
    """Nobody is to be told: the message was here before the application."""


def _same(message: Message) -> bytes | memoryview:
    return message.octets if isinstance(message, Compressed) else message
