"""The bodies of one connection's calls: pieces in, messages out, and what is wrong with them is refused and counted.

Rule: a call of one message is handed over when the client has sent everything; a streaming one when its head is here,
and its messages follow through its inbox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from trilith.errors import DeadlineExceeded, InvalidInput, PayloadTooLarge, QueueFull, TrilithError, Unsupported
from trilith.net.grpc.call import CallState, GrpcCall
from trilith.net.grpc.dispatch import cancel, dispatch
from trilith.net.grpc.inbox import MessageInbox
from trilith.net.grpc.state import ServerState
from trilith.net.grpc.statistics import CallRefusal, refusal_of
from trilith.net.held_bytes import ConnectionShare
from trilith.wire.grpc_compression import inflate
from trilith.wire.grpc_messages import Compressed, Message, MessageReader
from trilith.wire.grpc_status import GrpcStatus, grpc_status
from trilith.wire.http2 import Http2Connection

_RECEIVING: Final = CallState.RECEIVING
_MESSAGE_OVERHEAD_BYTES: Final = 64
"""What a waiting message costs beside its octets."""


class Intake:
    """Reads the bodies of calls.

    Args:
        state: the server's.
        http2: the connection's.
        schedule: called when there is output.
        share: what the connection holds.
    """

    __slots__ = ("_http2", "_schedule", "_server", "_share")

    def __init__(
        self, state: ServerState, http2: Http2Connection, schedule: Callable[[], None], share: ConnectionShare
    ) -> None:
        self._share = share
        self._server = state
        self._http2 = http2
        self._schedule = schedule

    def begin_stream(self, call: GrpcCall) -> None:
        """Hands a call to the application whose messages are to come."""
        call.reader = self._reader_of(call)
        call.inbox = MessageInbox(partial(self._release, call), partial(self._taken, call), partial(self._decode, call))
        dispatch(self._server, call)

    def piece(self, call: GrpcCall, data: bytes) -> None:
        """Takes a piece of a body."""
        reader = call.reader
        if reader is None:
            reader = call.reader = self._reader_of(call)
        inbox = call.inbox
        try:
            self._hold(call, len(data))
            messages = reader.feed(data)
            if inbox is None and reader.completed > 1:
                raise Unsupported("this method takes one message, and more were sent")
        except TrilithError as error:
            self.refuse(call, refusal_of(error), error)
            return
        if inbox is not None:
            self._hold(call, _MESSAGE_OVERHEAD_BYTES * len(messages))
            inbox.received(len(data), messages)
            return
        if messages and not self._take_only(call, messages[0]):
            return
        if call.state is _RECEIVING:
            self._http2.release(call.stream_id, len(data))

    def complete(self, call: GrpcCall, now: float) -> None:
        """The client has sent everything."""
        reader, inbox = call.reader, call.inbox
        if reader is not None and not reader.at_boundary:
            self._end(call, CallRefusal.TRUNCATED, GrpcStatus.INTERNAL, "the message ends before its declared length")
        elif inbox is not None:
            inbox.end()
        elif reader is None or not reader.completed:
            sentence = "this method takes one message, and none was sent"
            self._end(call, CallRefusal.NO_MESSAGE, GrpcStatus.UNIMPLEMENTED, sentence)
        else:
            call.reader = None
            call.received_at = now
            self.hand_over(call)

    def hand_over(self, call: GrpcCall) -> None:
        """The message is whole: the call goes to the application, and the message is held until its end."""
        size = len(call.message)
        self._share.take(size - call.held_bytes)
        call.held_bytes = size
        held = self._server.held
        if held.held_bytes > held.last_bytes:
            self.refuse(call, CallRefusal.BUFFERS, QueueFull(self._share.refuse()))
        else:
            dispatch(self._server, call)

    def end(self) -> None:
        """The socket is gone: lets go of the connection, which knows this intake."""
        self._schedule = _nothing

    def refuse(self, call: GrpcCall, why: CallRefusal, error: TrilithError) -> None:
        """Ends a call that the client did wrong, and counts why."""
        self._end(call, why, grpc_status(error), error.message)

    def refuse_slow(self, calls: Sequence[GrpcCall], now: float) -> None:
        """Ends the calls whose message has stopped coming."""
        timeout_s = self._server.limits.receive_timeout_s
        for call in calls:
            if call.state is _RECEIVING and call.received_at < now - timeout_s:
                error = DeadlineExceeded(f"no more of the message came in {timeout_s:g} s")
                self.refuse(call, CallRefusal.SLOW, error)

    def _end(self, call: GrpcCall, why: CallRefusal, status: GrpcStatus, message: str) -> None:
        self._server.counters.refused[why] += 1
        running = call.state is not _RECEIVING
        call.fail(status, message)
        if running:
            cancel(call)

    def _most_bytes(self, call: GrpcCall) -> int:
        most, limit = self._server.limits.max_message_bytes, call.message_limit
        return most if limit is None else min(most, limit)

    def _reader_of(self, call: GrpcCall) -> MessageReader:
        return MessageReader(self._most_bytes(call))

    def _hold(self, call: GrpcCall, size_bytes: int) -> None:
        call.held_bytes += size_bytes
        self._share.take(size_bytes)
        if self._share.passed:
            raise QueueFull(self._share.refuse())

    def _release(self, call: GrpcCall, size_bytes: int) -> None:
        self._http2.release(call.stream_id, size_bytes)
        self._schedule()

    def _taken(self, call: GrpcCall, size_bytes: int) -> None:
        size = min(size_bytes + _MESSAGE_OVERHEAD_BYTES, call.held_bytes)
        call.held_bytes -= size
        self._share.take(-size)

    def _take_only(self, call: GrpcCall, message: Message) -> bool:
        """Takes the message of a call that has one; False when it cannot be read, and the call is over."""
        try:
            call.message = self._decode(call, message)
            if isinstance(message, Compressed):
                self._hold(call, len(call.message))
        except QueueFull as error:
            self.refuse(call, CallRefusal.BUFFERS, error)
            return False
        except TrilithError:
            return False
        return True

    def _decode(self, call: GrpcCall, message: Message) -> bytes | memoryview:
        """The message itself. Raises what is wrong with it, after the call was ended for it."""
        if not isinstance(message, Compressed):
            return message
        if call.encoding is None:
            sentence = "a message is compressed, and the call declares no grpc-encoding"
            self._end(call, CallRefusal.COMPRESSION, GrpcStatus.INTERNAL, sentence)
            raise InvalidInput(sentence)
        try:
            return inflate(message.octets, call.encoding, max_bytes=self._most_bytes(call))
        except PayloadTooLarge as error:
            self.refuse(call, CallRefusal.MESSAGE_SIZE, error)
            raise
        except InvalidInput as error:
            self.refuse(call, CallRefusal.COMPRESSION, error)
            raise


def _nothing() -> None:
    """There is no output any more."""
