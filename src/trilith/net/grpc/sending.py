"""The answers of one connection's calls: what `GrpcCall` calls, as frames of the HTTP/2 layer.

Rule: a call is in `calls` from its first octet to its outcome, which is counted once, in `_ended`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trilith.errors import Cancelled, DeadlineExceeded, PayloadTooLarge, QueueFull, TrilithError
from trilith.net.grpc import answers
from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.dispatch import cancel
from trilith.net.grpc.state import ServerState
from trilith.net.held_bytes import LARGE_BYTES, ConnectionShare
from trilith.wire.grpc_messages import message_prefix
from trilith.wire.grpc_status import GrpcStatus, grpc_status
from trilith.wire.http2 import EncodedHeaders, ErrorCode, Field, Http2Connection

_OK: Final = int(GrpcStatus.OK)
_OFF_LOOP_BYTES: Final = 64 << 10  # a millisecond


class CallSender:
    """The `CallSink` of one connection.

    Args:
        state: the server's.
        http2: the connection's.
        schedule: called when there is output.
        share: what the connection holds.
    """

    __slots__ = (
        "_counters",
        "_http2",
        "_max_bytes",
        "_schedule",
        "_server",
        "_share",
        "calls",
        "draining",
        "transport",
    )

    def __init__(
        self, state: ServerState, http2: Http2Connection, schedule: Callable[[], None], share: ConnectionShare
    ) -> None:
        self._share = share
        self._server = state
        self._counters = state.counters
        self._max_bytes = state.limits.max_response_bytes
        self._http2 = http2
        self._schedule = schedule
        self.draining = False
        self.calls: dict[int, GrpcCall] = {}
        self.transport: asyncio.BaseTransport | None = None
        """Set once there is one."""

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """See `CallSink`."""
        found = None if self.transport is None else self.transport.get_extra_info("peercert")
        return found or None

    def next_request_id(self) -> str:
        """See `CallSink`."""
        return self._server.next_request_id()

    def send_reply(self, call: GrpcCall, message: bytes, trailers: Sequence[Field]) -> None:
        """See `CallSink`."""
        if len(message) > self._max_bytes:
            error = self._too_large(message)
            self.send_failure(call, grpc_status(error), error.message)
            return
        if len(message) > LARGE_BYTES and self._share.met:
            self.send_failure(call, GrpcStatus.RESOURCE_EXHAUSTED, self._not_kept(message))
            return
        try:
            ending = answers.ok_trailers(trailers, self._http2.max_header_list_bytes)
        except PayloadTooLarge as error:
            self.send_failure(call, grpc_status(error), error.message)
            return
        if call.head_sent or _is_compressed(call, message):
            self._send_last(call, message, ending)
            return
        del self.calls[call.stream_id]
        self._http2.respond(call.stream_id, answers.OK_HEAD, (message_prefix(len(message)), message), ending)
        if len(message) > LARGE_BYTES:
            self._share.unsent(self._http2.waiting_bytes)
        self._ended(call, _OK)

    def send_failure(self, call: GrpcCall, status: GrpcStatus, message: str, trailers: Sequence[Field] = ()) -> None:
        """See `CallSink`."""
        make = answers.failure_trailers if call.head_sent else answers.failure
        answer = make(status, message, trailers, self._http2.max_header_list_bytes)
        del self.calls[call.stream_id]
        self._http2.send_headers(call.stream_id, answer)
        self._ended(call, status)

    def send_head(self, call: GrpcCall, metadata: Sequence[Field]) -> None:
        """See `CallSink`."""
        compression = call.compression
        if compression is not None and call.accepts(compression.name):
            call.encoder = compression
        self._http2.begin(call.stream_id, answers.head(metadata, call.encoder, self._http2.max_header_list_bytes))
        call.head_sent = True
        self._schedule()

    def send_message(self, call: GrpcCall, message: bytes) -> bool:
        """See `CallSink`."""
        if len(message) > self._max_bytes:
            raise self._too_large(message)
        if len(message) > LARGE_BYTES and self._share.met:
            raise QueueFull(self._not_kept(message))
        if not call.head_sent:
            self.send_head(call, ())
        encoder = call.encoder
        if encoder is not None and len(message) >= encoder.min_bytes:
            return self._send_either(call, message, encoder.compress(message))
        return self._send_either(call, message, message)

    def _send_either(self, call: GrpcCall, message: bytes, packed: bytes) -> bool:
        """The shorter form of a message: each says for itself whether it is compressed."""
        compressed = len(packed) < len(message)
        parts = (message_prefix(len(packed) if compressed else len(message), compressed=compressed),)
        room = self._http2.send_data(call.stream_id, (*parts, packed if compressed else message))
        self._share.unsent(self._http2.waiting_bytes)
        self._schedule()
        return room

    def _send_last(self, call: GrpcCall, message: bytes, ending: EncodedHeaders) -> None:
        """The last message of an answer, and its end. A long one is compressed off the loop: others wait there."""
        if not call.head_sent:
            self.send_head(call, ())
        encoder = call.encoder
        if encoder is None or len(message) < max(_OFF_LOOP_BYTES, encoder.min_bytes):
            self.send_message(call, message)
            self._end(call, ending)
            return

        def packed(work: asyncio.Future[bytes]) -> None:
            if self.calls.get(call.stream_id) is call:  # else it was ended or taken back meanwhile
                self._send_either(call, message, work.result() if work.exception() is None else message)
                self._end(call, ending)

        self._server.loop.run_in_executor(None, encoder.compress, message).add_done_callback(packed)

    def send_end(self, call: GrpcCall, trailers: Sequence[Field]) -> None:
        """See `CallSink`."""
        try:
            ending = answers.ok_trailers(trailers, self._http2.max_header_list_bytes)
        except PayloadTooLarge as error:
            self.send_failure(call, grpc_status(error), error.message)
            return
        if not call.head_sent:
            self.send_head(call, ())
        self._end(call, ending)

    def _end(self, call: GrpcCall, ending: EncodedHeaders) -> None:
        del self.calls[call.stream_id]
        self._http2.send_headers(call.stream_id, ending)
        self._ended(call, _OK)

    # ---- what the connection does

    def wake(self) -> None:
        """Lets those go on whose messages have gone out."""
        self._share.unsent(self._http2.waiting_bytes)
        for stream_id in self._http2.take_roomy():
            call = self.calls.get(stream_id)
            if call is None:
                continue
            if call.room is not None:
                call.room.set()
            if call.on_room is not None:
                call.on_room()

    def expire(self, call: GrpcCall) -> None:
        """The deadline has passed."""
        self.cut_short(call, DeadlineExceeded("the call's deadline passed before there was an answer"))

    def cut_short(self, call: GrpcCall, error: TrilithError) -> None:
        """Ends a call with a status that waits for no window, and takes it from the application."""
        make = answers.failure_trailers if call.head_sent else answers.failure
        status = grpc_status(error)
        del self.calls[call.stream_id]
        trailers = make(status, error.message, (), self._http2.max_header_list_bytes)
        self._http2.cut_short(call.stream_id, trailers)
        self._ended(call, status)
        cancel(call)

    def drop_unread(self, stalled: Sequence[int]) -> None:
        """Drops whole answers among the streams that do not move.

        A handler that still sends is held as well, and may be for as long as it likes.
        """
        for stream_id in stalled:
            if stream_id not in self.calls:
                self._counters.write_timeouts += 1
                self._http2.reset(stream_id, ErrorCode.CANCEL)
                self._schedule()

    def taken_back(self, stream_id: int) -> None:
        """The stream is gone."""
        call = self.calls.pop(stream_id, None)
        if call is not None:
            self._ended(call, GrpcStatus.CANCELLED)
            cancel(call)

    def taken_back_all(self) -> None:
        """The connection is gone."""
        calls = list(self.calls.values())
        self.calls.clear()
        for call in calls:
            self._ended(call, GrpcStatus.CANCELLED)
            cancel(call)

    def end(self) -> None:
        """The socket is gone: takes all calls back, and lets go of the connection, which knows this sender."""
        self._schedule = _nothing
        self.taken_back_all()

    def _ended(self, call: GrpcCall, status: int) -> None:
        self._counters.outcomes[status] += 1
        call.on_room = None
        if call.held_bytes:
            self._share.take(-call.held_bytes)
            call.held_bytes = 0
            call.reader = None
        if call.inbox is not None:
            call.inbox.fail(Cancelled("the call is over: no more of its messages come"))
        on_end, call.on_end = call.on_end, None
        if on_end is not None:
            on_end()
        self._schedule()

    def _not_kept(self, message: bytes) -> str:
        return f"the answer ({len(message)} bytes) is not kept: {self._share.refuse()}"

    def _too_large(self, message: bytes) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"the answer has {len(message)} bytes, over the limit of {self._max_bytes} (max_response_bytes)"
        )


def _is_compressed(call: GrpcCall, message: bytes) -> bool:
    compression = call.compression
    return compression is not None and len(message) >= compression.min_bytes and call.accepts(compression.name)


def _nothing() -> None:
    """There is no output any more."""
