"""How much one key may still ask for. Pure: the instant is an argument."""

from __future__ import annotations

from trilith.orchestration.access.keys import KeyLimits


class TokenBucket:
    """Lets `rate_per_s` requests pass on average, and `burst` at once after a pause.

    Turner, "New directions in communications", IEEE Communications Magazine 24 (1986).
    """

    __slots__ = ("_burst", "_rate_per_s", "_since", "_tokens")

    def __init__(self, *, rate_per_s: float, burst: int, now: float) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = float(burst)
        self._since = now

    def take(self, now: float) -> float:
        """Takes a token; the seconds until there is one when there is none now, else 0."""
        if now > self._since:
            self._tokens = min(self._burst, self._tokens + (now - self._since) * self._rate_per_s)
            self._since = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate_per_s


class KeyUse:
    """What one key has under way.

    Attributes:
        limits: its own.
        in_flight: how many of its requests are under way.
    """

    __slots__ = ("_bucket", "in_flight", "limits")

    def __init__(self, limits: KeyLimits, *, now: float) -> None:
        self.limits = limits
        self.in_flight = 0
        self._bucket = _bucket(limits, now)

    def change(self, limits: KeyLimits, *, now: float) -> None:
        """From now on these hold. What is under way goes on, and counts."""
        if limits != self.limits:
            self.limits = limits
            self._bucket = _bucket(limits, now)

    def refused_for(self, now: float) -> float:
        """Seconds after which one more request may come by its rate; 0: now, and it has come."""
        return 0.0 if self._bucket is None else self._bucket.take(now)

    @property
    def full(self) -> bool:
        """Whether as many are under way as may be."""
        most = self.limits.concurrency
        return most is not None and self.in_flight >= most


def _bucket(limits: KeyLimits, now: float) -> TokenBucket | None:
    if limits.requests_per_s is None:
        return None
    return TokenBucket(rate_per_s=limits.requests_per_s, burst=limits.burst, now=now)
