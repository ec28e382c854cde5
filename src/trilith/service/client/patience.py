"""How long a client waits for a server.

Rule 1: a limit that the caller set is one of the whole call. The server is told it, and ends the call by itself; the
    client waits a little longer, so that it is the server's error that is seen, which knows more.
Rule 2: without one the server says nothing for longer than its method may take only when it is gone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Real

from trilith.errors import DeadlineExceeded, InvalidConfig

_SLACK_S = 0.25  # and a tenth of the limit
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one call may take.

    Attributes:
        asked_s: what the caller set, None for nothing; the server is told it.
        method_s: the method's own limit, None when the server does not say.
    """

    asked_s: float | None
    method_s: float | None

    @property
    def whole_s(self) -> float | None:
        """Seconds after which the client gives up a call, whatever happens meanwhile; None: it need not."""
        return None if self.asked_s is None else _with_slack(self.asked_s)

    @property
    def step_s(self) -> float | None:
        """Seconds that each step of a call may take; None: nothing is known."""
        if self.whole_s is not None or self.method_s is None:
            return self.whole_s
        return _with_slack(self.method_s)

    def within_s(self, most_s: float) -> float:
        """`most_s`, or less when the whole call has less."""
        return most_s if self.whole_s is None else min(most_s, self.whole_s)


def checked_timeout(timeout_s: float | None) -> float | None:
    """A limit that a caller set.

    Raises:
        InvalidConfig: it is no number of seconds above 0.
    """
    if timeout_s is None:
        return None
    given: object = timeout_s  # not everybody has a type checker
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not 0 < timeout_s < math.inf:
        raise InvalidConfig(f"timeout_s: expected seconds above 0, or None for the method's own, got {timeout_s!r}")
    return float(timeout_s)


class WholeCall:
    """The limit of a whole call for who waits in a thread: looked at whenever a piece was sent or has come."""

    def __init__(self, url: str, patience: Patience) -> None:
        self._url = url
        self._patience = patience
        self._ends_at = None if patience.whole_s is None else time.monotonic() + patience.whole_s

    def left_s(self) -> float | None:
        """What is left of it; None: there is none. DeadlineExceeded: nothing."""
        if self._ends_at is None:
            return None
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise overdue(self._url, self._patience)
        return left_s

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, in pieces of a bounded size, while there is time."""
        for chunk in chunks:
            for at in range(0, len(chunk), _PIECE_BYTES):
                self.left_s()
                yield chunk[at : at + _PIECE_BYTES]


def overdue(url: str, patience: Patience) -> DeadlineExceeded:
    """The error of a call that has taken longer."""
    if patience.asked_s is not None:
        return DeadlineExceeded(f"{url} did not answer within the client's time limit of {patience.asked_s:g} s")
    return DeadlineExceeded(
        f"nothing was heard of {url} for longer than the method's own limit of {patience.method_s:g} s: its machine, or"
        " the way to it, is gone"
    )


def _with_slack(limit_s: float) -> float:
    return 1.1 * limit_s + _SLACK_S
