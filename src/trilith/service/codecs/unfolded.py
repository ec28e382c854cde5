"""What the compressed parts of one call may become together: many small files must not be more than one large one.

Rule: the bound is spent before the memory is taken, where a file says what it will become, and at the latest when the
next part comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from trilith.errors import PayloadTooLarge

MAX_CALL_BYTES: Final = 1 << 30

_left: ContextVar[list[int] | None] = ContextVar("unfolded", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """What is spent in this block has one bound."""
    token = _left.set([MAX_CALL_BYTES])
    try:
        yield
    finally:
        _left.reset(token)


def spend(size_bytes: int) -> None:
    """Says that a part becomes so many bytes. Outside of `one_call`, where parts are read one by one, nothing.

    Raises:
        PayloadTooLarge: the parts of the call are more than may be.
    """
    left = _left.get()
    if left is None:
        return
    left[0] -= size_bytes
    if left[0] < 0:
        raise PayloadTooLarge(
            f"the pictures and frames of one call may take {MAX_CALL_BYTES >> 20:,} MiB once they are read, and these "
            "take more; send them in several calls"
        )
