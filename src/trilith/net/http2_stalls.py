"""Which answers their clients have stopped reading. It decides only: the instant is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LEAST_BYTES_PER_S: Final = 1 << 10
"""How fast a client must read what waits for it, over the write timeout: a byte now and then is not reading."""

PATIENT_BYTES: Final = 64 << 10
"""When no more waits than this, anything that goes out counts."""


def least_bytes(waiting_bytes: int, timeout_s: float) -> int:
    """How much must go out within the timeout, of `waiting_bytes`."""
    return 1 if waiting_bytes <= PATIENT_BYTES else int(LEAST_BYTES_PER_S * timeout_s)


class StallWatch:
    """Watches answers of one connection that wait for a window which their client does not open.

    The socket may well take more: other streams go on. But what waits is memory, and a client that asks for much and
    reads nothing must not keep it for ever.
    """

    __slots__ = ("_seen", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._seen: dict[int, tuple[int, float]] = {}  # octets sent at an instant, from which the timeout counts

    def stalled(self, waiting: Mapping[int, tuple[int, int]], now: float) -> list[int]:
        """The streams that have not moved enough for the timeout. To be called every second or so.

        Args:
            waiting: octets sent so far and octets that wait, by stream, of those that have more to send.
            now: monotonic seconds.
        """
        if not waiting:
            self._seen.clear()
            return []
        seen: dict[int, tuple[int, float]] = {}
        for stream_id, (sent_bytes, waiting_bytes) in waiting.items():
            before = self._seen.get(stream_id)
            stands = before is not None and sent_bytes - before[0] < least_bytes(waiting_bytes, self._timeout_s)
            seen[stream_id] = before if before is not None and stands else (sent_bytes, now)
        self._seen = seen
        return [stream_id for stream_id, (_, since) in seen.items() if now - since > self._timeout_s]
