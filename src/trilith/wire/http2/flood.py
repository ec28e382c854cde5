"""A bound on frames that cost the receiver more than the sender.

A bucket of tokens: a frame takes one, time and honest work put some back. Pure: `now` is an argument.
The attacks it answers: PING, SETTINGS and empty-frame floods (CVE-2019-9512, -9515, -9518), rapid reset
(CVE-2023-44487), and resets that the server is tricked into (CVE-2025-8671).
"""

from __future__ import annotations

from trilith.wire.http2.errors import ConnectionFault, ErrorCode, Refusal


class PingGuard:
    """Counts PINGs that come too soon after each other, as gRPC servers do (its A8 and A9).

    A client that reads `too_many_pings` in the GOAWAY doubles its interval, so the words are part of the protocol.
    """

    __slots__ = ("_interval_s", "_last_at", "_max_strikes", "_strikes")

    def __init__(self, *, interval_s: float, max_strikes: int) -> None:
        self._interval_s = interval_s
        self._max_strikes = max_strikes
        self._strikes = 0
        self._last_at: float | None = None

    def forgive(self) -> None:
        """An answer went out: the next PING is no strike, for it may measure the way."""
        self._strikes = 0
        self._last_at = None

    def ping(self, now: float) -> None:
        """A PING came.

        Raises:
            ConnectionFault: too many of them came too soon.
        """
        if self._last_at is not None and now - self._last_at < self._interval_s:
            self._strikes += 1
            if self._strikes > self._max_strikes:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings", Refusal.PINGS)
        self._last_at = now


class FloodGuard:
    """Counts control frames against a burst and a rate."""

    __slots__ = ("_burst", "_filled_at", "_per_s", "_tokens")

    def __init__(self, *, burst: int, per_s: float, now: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._tokens = float(burst)
        self._filled_at = now

    def earn(self, count: int = 1) -> None:
        """So many requests were answered, or frames sent: the client may send as many control frames more."""
        self._tokens = min(float(self._burst), self._tokens + count)

    def spend(self, now: float, what: Refusal) -> None:
        """One control frame came; `what` it is when it is one too many.

        Raises:
            ConnectionFault: too many of them came (ENHANCE_YOUR_CALM).
        """
        tokens = min(float(self._burst), self._tokens + (now - self._filled_at) * self._per_s)
        self._filled_at = now
        self._tokens = tokens - 1.0
        if tokens < 1.0:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"more than {self._burst} control frames at once, or {self._per_s:g} a second",
                what,
            )
