"""Which answers their clients have stopped reading. It decides only: the instant is an argument."""

from __future__ import annotations

from collections.abc import Mapping


class StallWatch:
    """Watches answers of one connection that wait for a window which their client does not open.

    The socket may well take more: other streams go on. But what waits is memory, and a client that asks for much and
    reads nothing must not keep it for ever.
    """

    __slots__ = ("_seen", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._seen: dict[int, tuple[int, float]] = {}

    def stalled(self, waiting: Mapping[int, int], now: float) -> list[int]:
        """The streams that have not moved for the timeout. To be called every second or so.

        Args:
            waiting: octets sent so far, by stream, of those that have more to send.
            now: monotonic seconds.
        """
        if not waiting:
            self._seen.clear()
            return []
        seen: dict[int, tuple[int, float]] = {}
        for stream_id, sent_bytes in waiting.items():
            before = self._seen.get(stream_id)
            seen[stream_id] = before if before is not None and before[0] == sent_bytes else (sent_bytes, now)
        self._seen = seen
        return [stream_id for stream_id, (_, since) in seen.items() if now - since > self._timeout_s]
