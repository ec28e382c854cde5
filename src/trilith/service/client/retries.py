"""Whether a call that failed is sent again, and when: instants and chance are arguments.

Rule 1: a call is sent again when that cannot do it twice: nothing answered, or the server says that the method was not
    begun (`trilith-not-begun`). A method that is declared idempotent also when its replica was lost or was full.
Rule 2: all tries together have the time of one call, and each tells the server only what is left of it.
Rule 3: `Retry-After` is waited out. Waits grow, and chance spreads them, so that clients do not come back all at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from trilith.errors import CapacityError, InvalidConfig, ReplicaLost, TrilithError
from trilith.service.client.patience import Patience

RETRIES: Final = 3
_MOST_RETRIES: Final = 100
_FIRST_S: Final = 0.1
_LONGEST_S: Final = 2.0
_LONGEST_ASKED_S: Final = 30.0  # a server that wants more time than that is not waited for
_LEAST_S: Final = 0.01  # a call with less than that left is not worth sending
_NOT_BEGUN: Final = "__trilith_not_begun__"

Error = TypeVar("Error", bound=TrilithError)


class Refused(NamedTuple):
    """What an answer says of trying again.

    Attributes:
        retry_after: the header of that name.
        not_begun: the call was refused before its method was begun.
    """

    retry_after: str | None = None
    not_begun: bool = False


Answered = tuple[int, str, bytes, Refused]
"""Status, content type, body, and what it says of trying again."""


def not_begun(error: Error) -> Error:
    """Marks the error of a call that was provably not begun."""
    vars(error)[_NOT_BEGUN] = True
    return error


def was_not_begun(error: TrilithError) -> bool:
    """Whether the call of that error was provably not begun."""
    return bool(vars(error).get(_NOT_BEGUN))


def checked_retries(retries: int) -> int:
    """How often a call may be sent again, as a caller set it.

    Raises:
        InvalidConfig: it is no such number.
    """
    given: object = retries  # not everybody has a type checker
    if type(given) is not int or not 0 <= given <= _MOST_RETRIES:
        raise InvalidConfig(f"retries: expected a whole number from 0 (never) to {_MOST_RETRIES}, got {given!r}")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When calls of one method are sent again.

    Attributes:
        retries: how often, at most.
        idempotent: the method may run twice.
    """

    retries: int
    idempotent: bool

    def wait_s(self, error: TrilithError, sent: int, *, left_s: float | None, chance: float) -> float | None:
        """Seconds until the call is sent again; None: it is not.

        Args:
            error: what it failed with.
            sent: how often it was sent.
            left_s: what is left of its time; None: it has no limit.
            chance: a number from 0 to 1, another one each time.
        """
        if sent > self.retries or not self._allows(error):
            return None
        asked_s = error.retry_after_s or 0.0
        if asked_s > _LONGEST_ASKED_S:
            return None
        own_s = min(_LONGEST_S, _FIRST_S * 2 ** (sent - 1))
        wait_s = max(asked_s, own_s / 2) + chance * own_s / 2
        return None if left_s is not None and wait_s + _LEAST_S > left_s else wait_s

    def _allows(self, error: TrilithError) -> bool:
        if was_not_begun(error):
            return True
        return self.idempotent and isinstance(error, CapacityError | ReplicaLost)


class Tries:
    """The tries of one call, in the time of one."""

    def __init__(self, policy: RetryPolicy, patience: Patience, *, now: float) -> None:
        self._policy = policy
        self._patience = patience
        self._began = now
        self._sent = 0

    def patience(self, now: float) -> Patience:
        """How long the next try may take."""
        self._sent += 1
        asked_s = self._patience.asked_s
        if asked_s is None or self._sent == 1:
            return self._patience
        return Patience(asked_s=max(_LEAST_S, asked_s - (now - self._began)), method_s=self._patience.method_s)

    def wait_s(self, error: TrilithError, *, now: float, chance: float) -> float:
        """Seconds until the next try. Raises the error itself when there is none."""
        limit_s = self._patience.asked_s
        left_s = None if limit_s is None else limit_s - (now - self._began)
        wait_s = self._policy.wait_s(error, self._sent, left_s=left_s, chance=chance)
        if wait_s is None:
            raise error
        return wait_s
