"""Whether a request whose replica died may run again. Pure.

Rule 1: what was never begun may run elsewhere. What was begun runs again only when its method is declared idempotent.
Rule 2: never for ever: a request that takes replica after replica with it is answered with an error.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often one request may be sent in all."""

    attempts: int = 3

    def may_retry(self, *, begun: bool, idempotent: bool, attempt: int) -> bool:
        """Whether a request that was lost on its `attempt`-th sending (from 1) is sent again.

        Args:
            begun: the replica had started on it (or it is not known that it had not).
            idempotent: the method may run twice for one request.
            attempt: how often it was sent so far.
        """
        return attempt < self.attempts and (idempotent or not begun)
