"""What an HTTP server counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from trilith.net.statistics import ServerCounters, ServerStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpStatistics(ServerStatistics):
    """Counts since the server started, and what is open now.

    Attributes:
        responses: answers by status, refusals included.
        disconnects: requests whose client went away before the answer.
        aborted_streams: streamed answers that were cut because their source failed.
    """

    responses: Mapping[int, int]
    disconnects: int
    aborted_streams: int


class HttpCounters(ServerCounters):
    """The running counts behind `HttpStatistics`."""

    __slots__ = ("aborted_streams", "disconnects", "responses")

    def __init__(self) -> None:
        super().__init__()
        self.responses: Counter[int] = Counter()
        self.disconnects = 0
        self.aborted_streams = 0

    def snapshot(self, *, connections: int, in_flight: int) -> HttpStatistics:
        """The counts as they stand."""
        return HttpStatistics(
            **self.common(connections, in_flight),
            responses=MappingProxyType(dict(self.responses)),
            disconnects=self.disconnects,
            aborted_streams=self.aborted_streams,
        )
