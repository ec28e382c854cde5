"""In-memory twin of a call's items: what a `ServiceHost` sends and reads, without a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilith.net.transport import Buffer, Item, Window
from trilith.wire.windows import ReceiveWindow, SendWindow


class MemoryStream:
    """An `ItemPort` whose other side is a test. Its flow control is that of connections.

    Args:
        window: what the other side takes at first; it grants more by `take`.

    Attributes:
        sent: items of the host that were not taken.
        metas: what they all had beside them, in order.
        given: how many items the host let in, and took.
    """

    def __init__(self, window: Window | None = None) -> None:
        self._window = window or Window()
        self._sending = SendWindow(self._window.items, self._window.size_bytes)
        self._receiving = ReceiveWindow(self._window)
        self.on_writable: Callable[[], None] | None = None
        self.sent: list[bytes] = []
        self.metas: list[bytes] = []
        self.taken_back = 0
        self._on_item: Callable[[Any], None] | None = None
        self._on_end: Callable[[], None] | None = None
        self._waiting: list[Item] = []
        self._over = False

    # The host's side.

    @property
    def writable(self) -> bool:
        """Whether an item may be sent."""
        return self._sending.open

    def send(self, buffers: Sequence[Buffer], meta: bytes = b"") -> bool:
        """Keeps an item for `take`."""
        whole = b"".join(bytes(buffer) for buffer in buffers)
        self._sending.spend(len(whole) + len(meta))
        self._receiving.arrived(len(whole) + len(meta))
        self.sent.append(whole)
        self.metas.append(meta)
        return self._sending.open

    def receive(self, on_item: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """Lets in what was given."""
        self._on_item, self._on_end = on_item, on_end
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            on_item(item)
        if self._over:
            on_end()

    def took(self, size_bytes: int) -> None:
        """Counts."""
        self.taken_back += 1

    # The test's side.

    @property
    def asked(self) -> bool:
        """Whether the host wants items."""
        return self._on_item is not None

    def take(self, count: int = 1) -> list[bytes]:
        """The oldest items of the host, which may send as many more."""
        taken, self.sent = self.sent[:count], self.sent[count:]
        for item in taken:
            grant = self._receiving.took(len(item))
            if grant is not None and self._sending.grant(*grant) and self.on_writable is not None:
                self.on_writable()
        return taken

    def give(self, *bodies: bytes, meta: bytes = b"") -> None:
        """Sends items to the host, one a body."""
        for body in bodies:
            item = Item(meta, [memoryview(bytearray(body))], len(body) + len(meta))
            if self._on_item is None:
                self._waiting.append(item)
            else:
                self._on_item(item)

    def end(self) -> None:
        """No more items go to the host."""
        self._over = True
        if self._on_end is not None:
            self._on_end()
