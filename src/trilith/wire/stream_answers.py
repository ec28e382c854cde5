"""What a streaming method and its client over HTTP agree on, and when a stream that is silent says so. Pure.

Rule: whoever writes such an answer asks here: the gateway, and a service with middleware.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from trilith.errors import NotAcceptable, UnsupportedMediaType
from trilith.wire.accept import best
from trilith.wire.stream_formats import StreamFormat

STREAM_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
"""Of each stream: proxies must pass it on as it comes."""

_LEAST_S: Final = 0.001


def chosen_type(accept: str | None, offers: Sequence[str], where: str) -> str:
    """The content type in which the items are sent.

    Args:
        accept: what the client said; None for nothing.
        offers: what there is, the default first.
        where: the method, `Words.count`.

    Raises:
        NotAcceptable: the client takes none of those that are offered.
    """
    found = best(accept, offers)
    if found is None:
        raise NotAcceptable(f"{where} streams {', '.join(offers)}; got accept: {(accept or '')[:200]}")
    return found


def check_items(content_type: str, takes: Sequence[str], where: str) -> None:
    """Looks at what the items of a request's body are.

    Raises:
        UnsupportedMediaType: the method reads no such items.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in takes:
        raise UnsupportedMediaType(
            f"{where} takes a stream of items as the body: {', '.join(takes)}; got {kind or 'no Content-Type'}"
        )


class Silence:
    """When a stream is to say that it is still there. Instants are arguments.

    Args:
        form: of the stream; None for one result.
        every_s: how long it may be silent; 0 for as long as it likes.
        now: the instant at which its head was sent.

    Attributes:
        comment: what it says.
        wrote_at: the instant at which it wrote last.
    """

    __slots__ = ("_every_s", "comment", "wrote_at")

    def __init__(self, form: StreamFormat | None, every_s: float, now: float) -> None:
        self.comment = form.keep_alive if form is not None else b""
        self._every_s = every_s if every_s and self.comment else math.inf
        self.wrote_at = now

    @property
    def may_last(self) -> bool:
        """Whether nothing is ever to be said."""
        return self._every_s == math.inf

    def left_s(self, now: float) -> float:
        """Seconds until it has been silent for too long; never none, infinity for never."""
        return max(_LEAST_S, self.wrote_at + self._every_s - now)

    def is_over(self, now: float) -> bool:
        """Whether it has been silent for too long."""
        return now - self.wrote_at >= self._every_s
