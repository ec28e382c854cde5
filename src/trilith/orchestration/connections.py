"""How many connections a gateway may hold, so that its replicas never lack a file descriptor. Pure.

Rule: clients come after the gateway's own needs. A descriptor that a replica, a piece of shared memory or a model's
file needs is kept free of them; who comes over the bound is told so, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LEAST_RESERVE: Final = 48  # the gateway itself holds 20, and each replica 4 and one for each piece of shared memory
_MOST_RESERVE: Final = 512
_SHARES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBounds:
    """Connections that the servers of a gateway may hold.

    Attributes:
        http: served over HTTP.
        grpc: served over gRPC.
        metrics: served on the port for metrics.
        turned_away: over a bound of HTTP or metrics (each), until they have read why.
    """

    http: int
    grpc: int
    metrics: int
    turned_away: int


def connection_bounds(descriptors: int, most: ConnectionBounds) -> ConnectionBounds:
    """The bounds for a process that may have so many open descriptors.

    Half of them are kept for all that is not a client, at least 48 and at most 512; the rest is dealt out. Where there
    is next to nothing each server still takes one connection.

    Args:
        descriptors: the limit of the process (`ulimit -n`).
        most: the bounds where descriptors are plenty.
    """
    spare = descriptors - max(_LEAST_RESERVE, min(descriptors // 2, _MOST_RESERVE))

    def dealt(shares: int, bound: int) -> int:
        return max(1, min(spare * shares // _SHARES, bound))

    return ConnectionBounds(
        http=dealt(6, most.http),
        grpc=dealt(6, most.grpc),
        metrics=dealt(2, most.metrics),
        turned_away=dealt(1, most.turned_away),
    )
