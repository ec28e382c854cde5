"""The body of a request that was not here when its server looked: how slowly it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilith.net.http1.request import HttpRequest


class LateBody:
    """Noted at a look, as of which it is judged: requests whose bodies come at once are never noted.

    Args:
        request: whose.
        since: the instant of the look, in seconds.
    """

    __slots__ = ("_before", "request", "since")

    def __init__(self, request: HttpRequest, *, since: float) -> None:
        self.request = request
        self.since = since
        self._before = self._received

    @property
    def _received(self) -> int:
        return 0 if self.request.inbound is None else self.request.inbound.received

    def rate(self, now: float) -> float:
        """Bytes a second that came since."""
        return (self._received - self._before) / max(now - self.since, 1e-3)
