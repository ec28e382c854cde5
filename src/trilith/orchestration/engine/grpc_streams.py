"""Streaming methods over gRPC: the messages of a call are the items of the method, either way.

Rule 1: no task a call. The call's inbox feeds the method, and the method's items the call, by callbacks.
Rule 2: a message is taken from the client when the method has room for it, and an item from the method when the client
    has: who reads slowly holds who writes, and neither the connection nor the memory of this process.
Rule 3: a failure before the first item is the whole answer; one midway is the status behind the items that were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilith.errors import TrilithError
from trilith.net.grpc import GrpcCall
from trilith.net.transport import Buffer, Item
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.orchestration.engine.grpc_fields import answer_fields
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.telemetry import TimelineShelf
from trilith.wire.calls import unpack_result


class GrpcStreamSink:
    """One call of a streaming method."""

    __slots__ = ("_call", "_held", "_pump", "_router", "_timelines")

    def __init__(self, call: GrpcCall, router: Router, timelines: TimelineShelf) -> None:
        self._call = call
        self._router = router
        self._timelines = timelines
        self._held: list[int] = []  # sizes of items that the client has no room for yet
        self._pump: Callable[[], None] | None = None

    # From the client to the method.

    def read(self, call: StreamCall) -> None:
        """The messages of the client are the items of the call."""
        inbox = self._call.messages()

        def pump() -> None:
            try:
                while call.writable and (message := inbox.take()) is not None:
                    call.send((message,))
            except TrilithError as error:  # a message that is not what its encoding says
                self._router.cancel(call, error)
                return
            if inbox.exhausted:
                inbox.on_change = None
                call.end()

        self._pump = inbox.on_change = pump

    def writable(self, call: StreamCall) -> None:
        """The method wants items."""
        if self._pump is not None:
            self._pump()

    # From the method to the client.

    def item(self, call: StreamCall, item: Item) -> None:
        """Sends an item; the first one with what the method said of the answer before it."""
        grpc = self._call
        if not call.items_out > 1:
            grpc.on_room = lambda: self._pass(call)
            if item.meta:
                try:
                    grpc.begin(answer_fields(unpack_result(item.meta)))
                except TrilithError as error:
                    self._router.cancel(call, error)
                    return
        buffers = item.buffers
        self._held.append(item.size_bytes)
        if grpc.send_now(buffers[0] if len(buffers) == 1 else b"".join(buffers)):
            self._pass(call)

    def _pass(self, call: StreamCall) -> None:
        held, self._held = self._held, []
        for size_bytes in held:
            call.passed(size_bytes)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Ends the items, or sends the one result of a method that only takes some."""
        result = unpack_result(meta)
        trailers = list(answer_fields(result)) if not (isinstance(call, StreamCall) and call.items_out) else []
        if call.trace:
            trailers.append(self._timelines.header(call.timeline(nested_timeline(meta))))
        if call.route.streams_out:
            self._call.finish(trailers=trailers)
        else:
            self._call.reply(buffers[0] if len(buffers) == 1 else b"".join(buffers), trailers=trailers)
        self._end()

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Sends the status."""
        self._end()
        self._call.fail_error(error)

    def _end(self) -> None:
        """Lets go of what leads back to the call."""
        grpc = self._call
        grpc.on_cancel = grpc.on_room = self._pump = None
        if grpc.inbox is not None:
            grpc.inbox.on_change = None
