"""The items of all calls of one connection: which stream a frame belongs to, on either side of its call.

Rule: a late frame is dropped, one that nothing can have caused is a breach. Late are an item of a call that was
cancelled or given up here, and anything for a call that was answered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilith.net.transport.call_table import CallTable, OnReply
from trilith.net.transport.calls import IncomingCall, Reply
from trilith.net.transport.owner import tell
from trilith.net.transport.sender import FrameSender
from trilith.net.transport.streams import CallStream, IncomingStream, OnItem
from trilith.wire import frames
from trilith.wire.frames import Buffer, Frame, MalformedFrame
from trilith.wire.windows import ReceiveWindow, SendWindow, Window


class StreamDesk:
    """Opens calls with items, and hands frames to their streams.

    Attributes:
        open_streams: of those outgoing calls that have items.
    """

    __slots__ = ("_incoming", "_outgoing", "_sender", "open_streams")

    def __init__(self, sender: FrameSender, outgoing: CallTable, incoming: Mapping[int, IncomingCall]) -> None:
        self._sender = sender
        self._outgoing = outgoing
        self._incoming = incoming
        self.open_streams: dict[int, CallStream] = {}

    def open(
        self,
        meta: bytes,
        buffers: Sequence[Buffer],
        on_reply: OnReply,
        on_item: OnItem,
        *,
        window: Window,
        first: float,
        flags: int,
    ) -> CallStream:
        """Sends a call with items; see `Peer.open`. `first`: its deadline.

        Raises:
            PayloadTooLarge, Bug: it cannot be sent.
        """
        streams = self.open_streams

        def ended(reply: Reply) -> None:
            self.drop(call_id)
            on_reply(reply)

        call_id = self._outgoing.add(ended)
        taken_bytes = float(window.size_bytes)
        try:
            self._sender.send(
                frames.CALL, call_id, meta, buffers, flags=flags, count=window.items, first=first, second=taken_bytes
            )
        except BaseException:
            self._outgoing.take(call_id)
            raise
        stream = CallStream(
            self._sender, call_id, flags=frames.FROM_CALLER, sending=SendWindow(), receiving=ReceiveWindow(window)
        )
        stream.on_item = on_item
        streams[call_id] = stream
        return stream

    def drop(self, call_id: int) -> None:
        """The call is over, or nobody wants it any more."""
        stream = self.open_streams.pop(call_id, None)
        if stream is not None:
            stream.close()

    def close(self) -> None:
        """The connection has ended."""
        for stream in self.open_streams.values():
            stream.close()
        self.open_streams.clear()

    def on_frame(self, frame: Frame, buffers: list[memoryview]) -> None:
        """Takes a frame of a stream.

        Raises:
            MalformedFrame: the other side may not send it.
        """
        call_id = frame.call_id
        if frame.kind == frames.FAILED:
            self._on_failed(frame)
        elif frame.flags & frames.FROM_CALLER or frame.kind == frames.END:
            call = self._incoming.get(call_id)
            if isinstance(call, IncomingStream):
                if not call.stream.closed:
                    call.stream.on_frame(frame, buffers)
            elif call is not None:
                raise MalformedFrame(f"call {call_id:#x} has no items")
        else:
            stream = self.open_streams.get(call_id)
            if stream is not None:
                stream.on_frame(frame, buffers)
            elif not self._outgoing.is_cancelled(call_id):
                raise MalformedFrame(f"an item of call {call_id:#x}, which has none or is not in flight")

    def _on_failed(self, frame: Frame) -> None:
        on_reply = self._outgoing.give_up(frame.call_id)
        if on_reply is not None:
            code, message, again = frames.decode_error(frame.meta)
            tell(on_reply, Reply(False, b"", [], code, message, frame.first, frame.second, again))
