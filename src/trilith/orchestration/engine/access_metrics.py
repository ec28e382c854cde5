"""What the doors count, by the names of keys.

trilith_access_total{key, outcome}      key: "" for who has shown none that is known; outcome: ok, or an error's code
trilith_access_in_flight{key}           requests under way
"""

from __future__ import annotations

from typing import Final

from trilith.orchestration.access import AccessDesk
from trilith.telemetry import Metrics, Reading, snapshots

_FAMILIES: Final[tuple[Reading[AccessDesk], ...]] = (
    Reading(
        "trilith_access_in_flight",
        "gauge",
        "Requests under way, by key.",
        ("key",),
        lambda desk: (((name,), count) for name, count in desk.in_flight().items()),
    ),
)


def counted_desk(metrics: Metrics) -> AccessDesk:
    """A desk whose decisions are counted."""
    total = metrics.counter(
        "trilith_access_total", "Requests that were let pass or refused, by key and outcome.", ("key", "outcome")
    )

    def count(key: str, outcome: str) -> None:
        total.labelled(key, outcome).value += 1

    desk = AccessDesk(count)
    metrics.add_source(lambda: snapshots(_FAMILIES, desk))
    return desk
