"""Whether a watcher was there to hear others. Pure: the instant is an argument.

A process that was stopped (Ctrl-Z, `docker pause`, a virtual machine that was frozen) finds on waking that nobody was
heard for a while. The silence was its own: what it watches was stopped too, or could not make itself heard.
"""

from __future__ import annotations

from typing import Final

_SLACK_S: Final = 0.5


class Attention:
    """Of one watcher, that looks again and again.

    Args:
        every_s: the longest time between two looks, in seconds, while nothing holds it up.
    """

    __slots__ = ("_longest_s", "_looked_at", "_since")

    def __init__(self, every_s: float) -> None:
        self._longest_s = 2.0 * every_s + _SLACK_S
        self._looked_at = self._since = float("-inf")

    def look(self, now: float) -> float:
        """Notes a look. Since which instant it has listened without a break: no silence began before."""
        if now - self._looked_at > self._longest_s:
            self._since = now
        self._looked_at = now
        return self._since
