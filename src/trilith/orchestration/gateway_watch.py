"""Whether the gateway lives, and when another may be started. Pure: the instants are arguments.

Rule 1: a gateway that is not heard is no gateway. One that starts has as long for its first word as a replica has.
Rule 2: one that ends is replaced, ever more slowly, and not for ever when it never comes up.
"""

from __future__ import annotations

from trilith.core.attention import Attention
from trilith.core.backoff import StartBackoff
from trilith.orchestration.health import silent

_KEY = "gateway"


def show_life_every_s(unresponsive_s: float) -> float:
    """How often a gateway says that it lives, which is given up after `unresponsive_s` seconds."""
    return unresponsive_s / 4


class GatewayWatch:
    """The one gateway of a server, from its start to its exit, and the next one."""

    def __init__(self, *, unresponsive_s: float, start_s: float) -> None:
        """Args:
        unresponsive_s: seconds of trouble after which it is given up; they may have begun just after it was heard.
        start_s: seconds of silence before its first word.
        """
        self._unresponsive_s = unresponsive_s + show_life_every_s(unresponsive_s)
        self._start_s = max(start_s, unresponsive_s)
        self._backoff = StartBackoff()
        self._attention = Attention(show_life_every_s(unresponsive_s))
        self._up = False
        self._limit_s = self._start_s
        self._since = 0.0
        self._heard_at = 0.0

    def started(self, now: float) -> None:
        """Its process runs."""
        self._up = True
        self._limit_s = self._start_s
        self._since = self._heard_at = now

    def heard(self, now: float) -> None:
        """It said something."""
        self._heard_at = now
        self._limit_s = self._unresponsive_s

    def ends(self) -> None:
        """It is being ended: there is nothing to hear of it any more."""
        self._up = False

    def silent_for(self, now: float) -> float | None:
        """The seconds of its silence, when they are too many. To be asked every `show_life_every_s`."""
        heard_at = max(self._heard_at, self._attention.look(now))
        if self._up and silent(heard_at, now, self._limit_s):
            return now - heard_at
        return None

    def exited(self, now: float, *, served: bool) -> float | None:
        """Its process ended. When the next may be started (seconds), or None: it ended again and again.

        `served`: it had loaded what it was to serve.
        """
        self._up = False
        self._backoff.exited(_KEY, ready_for_s=now - self._since if served else None, now=now)
        return None if self._backoff.given_up(_KEY) else self._backoff.not_before(_KEY)
