"""The items of one call, at one end of a connection: what a call has beside its one answer.

    stream = peer.open(meta, buffers, on_reply, on_item, window=Window())      the caller
    stream.send([buffer]); stream.end(); peer.cancel(stream.call_id)

    call.stream                                    of an `IncomingStream`, which `Peer.on_call` gets: the called side
    call.stream.receive(on_item, on_end, window)   lets the caller's items come
    call.stream.send([buffer]); call.result(meta)  the result ends them

Rule 1: no task and no future a stream: callbacks on the loop's thread. Whoever has more to send than `writable` allows
        waits for `on_writable`; whoever is done with an item says so by `took`, and no sooner.
Rule 2: the items of the called side end with its answer, RESULT or ERROR. Those of the caller end with `end`, or with
        the call. A call that is cancelled, answered or lost takes both ways with it.
Rule 3: what a reader does not take is not sent: its own stream stands still, and nothing else on the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from trilith.errors import TrilithError, wire_code
from trilith.net.transport.calls import IncomingCall
from trilith.net.transport.owner import tell, tell_nothing
from trilith.wire import frames
from trilith.wire.frames import Buffer, Frame, MalformedFrame
from trilith.wire.windows import ReceiveWindow, SendWindow, Window

if TYPE_CHECKING:
    from trilith.net.transport.accept_board import AcceptBoard
    from trilith.net.transport.answering import Answering
    from trilith.net.transport.sender import FrameSender

_WINDOW: Final = Window()


class Item(msgspec.Struct, frozen=True, gc=False):
    """One item.

    Attributes:
        meta: as the other side gave it.
        buffers: writable views, this side's alone.
        size_bytes: of both: what `CallStream.took` is told.
    """

    meta: bytes
    buffers: list[memoryview]
    size_bytes: int


OnItem = Callable[[Item], None]


class CallStream:
    """Both ways of one call, at one end.

    Attributes:
        call_id: of the call.
        closed: the call was answered, cancelled or lost: nothing is sent any more.
        on_item: gets each item of the other side, in order.
        on_end: called when the caller has ended its items; of the called side only.
        on_writable: called when `writable` became true.
        items_sent, items_received: so far.
    """

    __slots__ = (
        "_flags",
        "_receiving",
        "_sender",
        "_sending",
        "call_id",
        "closed",
        "ended",
        "items_received",
        "items_sent",
        "on_end",
        "on_item",
        "on_writable",
    )

    def __init__(
        self, sender: FrameSender, call_id: int, *, flags: int, sending: SendWindow, receiving: ReceiveWindow | None
    ) -> None:
        self._sender = sender
        self._flags = flags
        self._sending = sending
        self._receiving = receiving
        self.call_id = call_id
        self.closed = False
        self.ended = False  # the caller's items
        self.on_item: OnItem | None = None
        self.on_end: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.items_sent = self.items_received = 0

    # Sending.

    @property
    def writable(self) -> bool:
        """Whether an item may be sent now."""
        return not self.closed and self._sending.open

    def send(self, buffers: Sequence[Buffer], meta: bytes = b"") -> bool:
        """Sends an item; the buffers are the caller's again when this returns. Nothing happens when `closed`.

        Returns:
            Whether another one may follow now.

        Raises:
            Bug: `writable` is false, or a buffer is not C-contiguous.
            PayloadTooLarge: the item is over the frame limits.
        """
        if self.closed:
            return False
        size_bytes = len(meta)
        for buffer in buffers:
            size_bytes += buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        self._sending.spend(size_bytes)
        self._sender.send(frames.ITEM, self.call_id, meta, buffers, flags=self._flags)
        self.items_sent += 1
        return self._sending.open

    def end(self) -> None:
        """The caller sends no more items."""
        if not self.closed and not self.ended:
            self.ended = True
            self._sender.send(frames.END, self.call_id, b"")

    # Receiving.

    def receive(self, on_item: OnItem, on_end: Callable[[], None], window: Window = _WINDOW) -> None:
        """Lets the caller's items come; for the called side, once. `on_end` follows at once when there are none."""
        self.on_item, self.on_end = on_item, on_end
        if self._receiving is None and not self.closed:
            self._receiving = ReceiveWindow(window)
            self._grant(window.items, window.size_bytes)
        if self.ended:
            tell_nothing(on_end)

    def took(self, size_bytes: int) -> None:
        """An item of that size is used up: another one may come for it."""
        receiving = self._receiving
        if receiving is None or self.closed:
            return
        grant = receiving.took(size_bytes)
        if grant is not None:
            self._grant(*grant)

    @property
    def held_items(self) -> int:
        """Items that came and were not taken."""
        return self._receiving.held_items if self._receiving is not None else 0

    def _grant(self, items: int, size_bytes: int) -> None:
        self._sender.send(frames.WINDOW, self.call_id, b"", flags=self._flags, count=items, first=float(size_bytes))

    # For the peer.

    def close(self) -> None:
        """Nothing goes either way any more."""
        self.closed = True
        self.on_item = self.on_end = self.on_writable = None

    def on_frame(self, frame: Frame, buffers: list[memoryview]) -> None:
        """Takes a frame of the call's stream.

        Raises:
            MalformedFrame: the other side may not send it.
        """
        if frame.kind == frames.ITEM:
            self._on_item(frame.meta, buffers)
        elif frame.kind == frames.WINDOW:
            if self._sending.grant(frame.count, frame.first) and self.on_writable is not None:
                tell_nothing(self.on_writable)
        elif not self.ended:
            self.ended = True
            if self.on_end is not None:
                tell_nothing(self.on_end)

    def _on_item(self, meta: bytes, buffers: list[memoryview]) -> None:
        receiving = self._receiving
        if receiving is None or (self.ended and not self._flags):
            raise MalformedFrame(f"an item of call {self.call_id:#x} came that nobody asked for")
        size_bytes = len(meta) + sum(map(len, buffers))
        receiving.arrived(size_bytes)
        self.items_received += 1
        if self.on_item is not None:
            tell(self.on_item, Item(meta, buffers, size_bytes))


class IncomingStream(IncomingCall):
    """A call from the other side that has items. It is answered as every call is.

    Attributes:
        stream: its items.
    """

    __slots__ = ("_given_up", "_sender", "stream")

    def __init__(
        self,
        answering: Answering,
        sender: FrameSender,
        board: AcceptBoard | None,
        frame: Frame,
        buffers: list[memoryview],
        deadline: float | None,
        received_at: float,
    ) -> None:
        super().__init__(answering, board, frame.call_id, frame.meta, buffers, deadline, frame.flags, received_at)
        self._sender = sender
        self._given_up = False
        sending = SendWindow()
        sending.grant(frame.count, frame.second)
        self.stream = CallStream(sender, frame.call_id, flags=0, sending=sending, receiving=None)

    def result(self, meta: bytes, buffers: Sequence[Buffer] = ()) -> None:
        """As of every call; it ends the items of this side."""
        super().result(meta, buffers)
        self.stream.close()

    def fail(self, code: str, message: str) -> None:
        """As of every call; it ends the items of this side."""
        super().fail(code, message)
        self.stream.close()

    def fail_error(self, error: TrilithError) -> None:
        """As of every call; it ends the items of this side."""
        super().fail_error(error)
        self.stream.close()

    def give_up(self, error: TrilithError) -> None:
        """Tells the caller now that the call has failed. The answer, which frees its place, is still due."""
        if self.stream.closed or self._given_up:
            return
        self._given_up = True
        self.stream.close()
        meta = frames.encode_error(wire_code(error), error.message, error.retry_after_s)
        self._sender.send(frames.FAILED, self.id, meta)
