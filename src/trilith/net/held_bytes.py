"""How many bytes a process keeps for its clients: requests until they are answered, answers until they are sent.

One `HeldBytes` for all servers of a process, one `ConnectionShare` of it for each connection. Counting only: who holds
bytes says so, and asks whether that is too much; what becomes of the request is the server's matter.

Rule 1: bytes are counted where they are kept, and given back where they are let go; a connection that ends gives back
        all that is left.
Rule 2: what comes in pieces (a body) is refused once the bound is passed. What is there at once (an answer) is let pass
        while the bound is not met, whatever its size: so anything can be sent when little else is held, and no more is
        held than the bound and one answer.
Rule 3: an eighth beyond the bound is for requests that come whole at once: a few large ones do not shut out the small.
Rule 4: nobody waits for another's bytes: those whose bodies are half here would wait for each other.
"""

from __future__ import annotations

from typing import Final

DEFAULT_HELD_BYTES: Final = 1 << 30
_SHARES: Final = 4
_SPARE: Final = 8
LARGE_BYTES: Final = 64 << 10
"""Smaller answers are not looked at: the windows and counts of a connection bound them."""


class HeldBytes:
    """The bound of a process.

    Args:
        limit_bytes: what may be held in all.
        share_bytes: what one connection may hold of it; None for a quarter.

    Attributes:
        held_bytes: what is held now.
        last_bytes: over it, requests are refused even when they are whole.
        refused: requests and answers that were given up for it.
    """

    __slots__ = ("held_bytes", "last_bytes", "limit_bytes", "refused", "share_bytes")

    def __init__(self, limit_bytes: int = DEFAULT_HELD_BYTES, share_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.share_bytes = limit_bytes // _SHARES if share_bytes is None else min(share_bytes, limit_bytes)
        self.last_bytes = limit_bytes + limit_bytes // _SPARE
        self.held_bytes = 0
        self.refused = 0


class ConnectionShare:
    """What one connection holds.

    Attributes:
        requests_bytes: of its requests, until they are answered.
        answers_bytes: of its answers, until they are sent.
    """

    __slots__ = ("_all", "answers_bytes", "requests_bytes")

    def __init__(self, held: HeldBytes) -> None:
        self._all = held
        self.requests_bytes = 0
        self.answers_bytes = 0

    def take(self, size_bytes: int) -> None:
        """So much more of a request is held; less than 0: so much was let go."""
        self.requests_bytes += size_bytes
        self._all.held_bytes += size_bytes

    def unsent(self, size_bytes: int) -> None:
        """So much of answers is held now."""
        if size_bytes != self.answers_bytes:
            self._all.held_bytes += size_bytes - self.answers_bytes
            self.answers_bytes = size_bytes

    @property
    def passed(self) -> bool:
        """Whether more is held than may be: to be asked after `take`."""
        everything = self._all
        if everything.held_bytes > everything.limit_bytes:
            return True
        return self.requests_bytes + self.answers_bytes > everything.share_bytes

    @property
    def met(self) -> bool:
        """Whether no more may be held: to be asked before a whole answer is kept."""
        everything = self._all
        if everything.held_bytes >= everything.limit_bytes:
            return True
        return self.requests_bytes + self.answers_bytes >= everything.share_bytes

    def refuse(self) -> str:
        """Counts that something was given up; what its client is told."""
        everything = self._all
        everything.refused += 1
        if everything.held_bytes >= everything.limit_bytes:
            return (
                "the server holds all the bytes of requests and answers that it may "
                f"({everything.limit_bytes >> 20} MiB, --max-held-mb): try again later"
            )
        return (
            f"this connection holds all the bytes of requests and answers that one may ({everything.share_bytes >> 20} "
            "MiB, see --max-held-mb): read answers, or ask for less at a time"
        )

    def end(self) -> None:
        """The connection has ended: what is said from now on changes nothing."""
        self.take(-self.requests_bytes)
        self.unsent(0)
        self._all = HeldBytes(0)
