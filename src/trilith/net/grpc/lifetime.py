"""What a connection's clock asks for. It decides only: instants are arguments, and nothing is done here.

Rule: one thing is due at a time, in the order of `Due`; the rest comes with the next tick.
"""

from __future__ import annotations

import enum
from typing import Final

from trilith.net.grpc.limits import GrpcLimits

DRAIN_HEARD_S: Final = 1.0
"""How long a client has to acknowledge the first GOAWAY of a drain."""


class Due(enum.Enum):
    """What a connection should do now."""

    NOTHING = enum.auto()
    ABORT_HANDSHAKE = enum.auto()
    ABORT_SILENT = enum.auto()
    PING = enum.auto()
    DRAIN = enum.auto()
    FINISH_DRAIN = enum.auto()
    CUT = enum.auto()


class Lifetime:
    """Instants of one connection, on the monotonic clock.

    Args:
        limits: the bounds.
        now: when the connection was made.
        spread: 0 to 1; moves the connection's age limit by up to a tenth either way, so that connections made together
            do not end together.
    """

    __slots__ = ("_age_s", "_drain_at", "_limits", "_made_at", "_pinged_at", "aged", "busy_at", "heard_at")

    def __init__(self, limits: GrpcLimits, *, now: float, spread: float) -> None:
        self._limits = limits
        self._made_at = self.heard_at = self.busy_at = now
        self._pinged_at: float | None = None
        self._drain_at: float | None = None
        age_s = limits.max_connection_age_s
        self._age_s = None if age_s is None else age_s * (0.9 + 0.2 * spread)
        self.aged = False

    @property
    def drain_begun(self) -> bool:
        """True once the client was asked to open no more calls."""
        return self._drain_at is not None

    def heard(self, now: float) -> None:
        """Octets came."""
        self.heard_at = now
        self._pinged_at = None

    def pinged(self, now: float) -> None:
        """A keep-alive PING was sent."""
        self._pinged_at = now

    def begin_drain(self, now: float) -> None:
        """The client was asked to go."""
        self._drain_at = now

    def due(self, now: float, *, handshake: bool, open_streams: int, refusing: bool) -> Due:
        """What to do now.

        Args:
            now: monotonic seconds.
            handshake: the client's preface or SETTINGS have yet to come.
            open_streams: streams that have not ended.
            refusing: the second GOAWAY was sent.
        """
        limits = self._limits
        if handshake:
            return Due.ABORT_HANDSHAKE if now - self._made_at > limits.handshake_timeout_s else Due.NOTHING
        if self._pinged_at is not None:
            if now - self._pinged_at > limits.keepalive_timeout_s:
                return Due.ABORT_SILENT
        elif now - self.heard_at > limits.keepalive_interval_s:
            return Due.PING
        return self._end_due(now, open_streams, refusing)

    def _end_due(self, now: float, open_streams: int, refusing: bool) -> Due:
        limits = self._limits
        if self._drain_at is not None:
            if not refusing:
                return Due.FINISH_DRAIN if now - self._drain_at > DRAIN_HEARD_S else Due.NOTHING
            late = self.aged and now - self._drain_at > limits.max_connection_age_grace_s
            return Due.CUT if late else Due.NOTHING
        if self._age_s is not None and now - self._made_at > self._age_s:
            self.aged = True
            return Due.DRAIN
        return Due.DRAIN if now - self.busy_at > limits.idle_timeout_s and not open_streams else Due.NOTHING
