"""What a frame for a stream that has no object means. Pure bookkeeping on stream numbers.

A number above the last one is a stream that was never opened (idle). Below, there are three kinds, and RFC 9113 section
5.1 wants them told apart: streams that *we* reset (frames already on their way are ignored), numbers that the client
skipped (using one is a PROTOCOL_ERROR), and streams that ended (STREAM_CLOSED).

Both memories are short, because frames on their way are few; what is forgotten counts as ended.
"""

from __future__ import annotations

from typing import Final

_RESETS_REMEMBERED: Final = 1024
_GAPS_REMEMBERED: Final = 16


class ClosedStreams:
    """Remembers how streams ended, where it matters."""

    __slots__ = ("_gaps", "_reset", "last_stream_id")

    def __init__(self) -> None:
        self._reset: dict[int, None] = {}
        self._gaps: list[range] = []
        self.last_stream_id = -1
        """The highest number that the client used; -1 before the first."""

    def opened(self, stream_id: int) -> None:
        """The client used a number above all that it used before."""
        if stream_id != self.last_stream_id + 2:
            self._gaps = [*self._gaps[-_GAPS_REMEMBERED:], range(self.last_stream_id + 2, stream_id, 2)]
        self.last_stream_id = stream_id

    def reset_by_us(self, stream_id: int) -> None:
        """We sent RST_STREAM."""
        self._reset[stream_id] = None
        if len(self._reset) > _RESETS_REMEMBERED:
            del self._reset[next(iter(self._reset))]

    def is_idle(self, stream_id: int) -> bool:
        """True for a number that the client may still use."""
        return stream_id > self.last_stream_id

    def was_reset_by_us(self, stream_id: int) -> bool:
        """True when frames for it may still be on their way and must be ignored."""
        return stream_id in self._reset

    def was_skipped(self, stream_id: int) -> bool:
        """True for a number that the client passed over."""
        return any(stream_id in gap for gap in self._gaps)
