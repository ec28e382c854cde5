"""Bodies whose requests were answered before they were complete: read and dropped within bounds, or refused.

Many clients read no answer before they have sent all. So what is left is taken if it is little, and soon.
"""

from __future__ import annotations

from trilith.wire.http1 import HttpLimits, InboundBody


class UnwantedBodies:
    """Of one connection: which streams still send, how many octets they may, and until when. It decides only."""

    __slots__ = ("_limits", "_streams")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._streams: dict[int, tuple[int, float]] = {}

    def admit(self, stream_id: int, body: InboundBody, content_length: int | None, now: float) -> bool:
        """Whether the rest of a body is to be read. If not, its stream should be reset behind the answer.

        Args:
            stream_id: whose request was answered.
            body: as far as it is here.
            content_length: what was declared, or None.
            now: monotonic seconds.
        """
        limits = self._limits
        left = limits.discard_bytes if content_length is None else content_length - body.received
        if left > limits.discard_bytes:
            return False
        self._streams[stream_id] = (left, now + limits.linger_timeout_s)
        return True

    def received(self, stream_id: int, size_bytes: int) -> bool:
        """More of it came. False when that was too much."""
        left, until = self._streams.get(stream_id, (0, 0.0))
        self._streams[stream_id] = (left - size_bytes, until)
        return left >= size_bytes

    def forget(self, stream_id: int) -> None:
        """It is complete, or its stream is gone."""
        self._streams.pop(stream_id, None)

    def late(self, now: float) -> list[int]:
        """The streams that have had their time."""
        return [stream_id for stream_id, (_, until) in self._streams.items() if until < now]

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._streams
