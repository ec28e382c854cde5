"""Flow control of one stream of items, one way: how much may be under way. Pure.

Rule 1: the receiver grants items and bytes. An item may be sent while both are above zero, so that one item of any size
        passes: the bytes may sink below zero by it, and nothing follows until they are above zero again.
Rule 2: the receiver keeps the same account. An item that it did not grant is a breach of the protocol.
Rule 3: what was taken is granted anew in bulk, half a window at a time: a grant is a frame.

So a stream holds at most its window and one item, however slow its reader is.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilith.errors import Bug, InvalidConfig
from trilith.wire.frames import MalformedFrame

_MOST: float = 1 << 52  # what a double counts exactly, with room to add


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How much of a stream may be on its way to one reader.

    Attributes:
        items: not yet taken, at least 1.
        size_bytes: of their buffers and metadata, at least 1; one item may be larger.

    Raises:
        InvalidConfig: one of them is less.
    """

    items: int = 64
    size_bytes: int = 256 * 1024

    def __post_init__(self) -> None:
        for name, value, most in (("items", self.items, 1 << 31), ("size_bytes", self.size_bytes, 1 << 40)):
            if not 0 < value <= most:
                raise InvalidConfig(f"stream window: {name}: expected 1 to {most}, got {value}")


class SendWindow:
    """The sender's account. It begins with nothing.

    Attributes:
        items: how many more may be sent.
        size_bytes: how many bytes more; below zero after an item that was larger.
    """

    __slots__ = ("items", "size_bytes")

    def __init__(self, items: int = 0, size_bytes: int = 0) -> None:
        self.items = items
        self.size_bytes = size_bytes

    @property
    def open(self) -> bool:
        """Whether an item may be sent."""
        return self.items > 0 and self.size_bytes > 0

    def spend(self, size_bytes: int) -> None:
        """Takes note of an item that is sent.

        Raises:
            Bug: it may not be.
        """
        if not self.open:
            raise Bug("an item was sent into a closed window; look at `writable` before sending")
        self.items -= 1
        self.size_bytes -= size_bytes

    def grant(self, items: int, size_bytes: float) -> bool:
        """Takes what the other side grants; True when the window opened by it.

        Raises:
            MalformedFrame: those are no numbers of items and bytes.
        """
        if not (items >= 0 and 0.0 <= size_bytes < _MOST) or size_bytes != int(size_bytes):
            raise MalformedFrame(f"a stream was granted {items} items and {size_bytes} bytes")
        was_open = self.open
        self.items += items
        self.size_bytes += int(size_bytes)
        return self.open and not was_open


class ReceiveWindow:
    """The receiver's account, opened with the whole window.

    Attributes:
        held_items, held_bytes: what arrived and was not taken.
    """

    __slots__ = (
        "_granted_bytes",
        "_granted_items",
        "_owed_bytes",
        "_owed_items",
        "_window",
        "held_bytes",
        "held_items",
    )

    def __init__(self, window: Window) -> None:
        self._window = window
        self._granted_items = window.items
        self._granted_bytes = window.size_bytes
        self._owed_items = self._owed_bytes = 0
        self.held_items = self.held_bytes = 0

    def arrived(self, size_bytes: int) -> None:
        """Takes note of an item that came.

        Raises:
            MalformedFrame: it was not granted.
        """
        if self._granted_items <= 0 or self._granted_bytes <= 0:
            raise MalformedFrame(f"an item of {size_bytes} bytes came that was not granted")
        self._granted_items -= 1
        self._granted_bytes -= size_bytes
        self.held_items += 1
        self.held_bytes += size_bytes

    def took(self, size_bytes: int) -> tuple[int, int] | None:
        """Takes note that one held item of that size was used up; the items and bytes to grant now, or None.

        Raises:
            Bug: there is no such item.
        """
        if not self.held_items or self.held_bytes < size_bytes:
            raise Bug(f"an item of {size_bytes} bytes was taken; {self.held_items} of {self.held_bytes} bytes are here")
        self.held_items -= 1
        self.held_bytes -= size_bytes
        self._owed_items += 1
        self._owed_bytes += size_bytes
        if 2 * self._owed_items < self._window.items and 2 * self._owed_bytes < self._window.size_bytes:
            return None
        grant = self._owed_items, self._owed_bytes
        self._granted_items += grant[0]
        self._granted_bytes += grant[1]
        self._owed_items = self._owed_bytes = 0
        return grant
