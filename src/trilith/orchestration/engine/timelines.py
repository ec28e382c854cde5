"""How a client gets the timeline that it asked for.

Rule 1: a timeline that any client can read in a header is sent in the header `trilith-timeline`.
Rule 2: a longer one (a page of text is hundreds of calls) is kept a while; the header `trilith-timeline-at` says where.
    Only the last few are kept: it is a tool for looking, not a store.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

import orjson

from trilith.core.timeline import Timeline
from trilith.errors import NotFound

PATH: Final = "/timelines/"
_HEADER_BYTES: Final = 8 << 10  # the smallest limit of common clients is 16 kB for all headers together
_KEPT: Final = 64


class TimelineShelf:
    """The last long timelines, each under a name that nobody can guess."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def header(self, timeline: Timeline) -> tuple[bytes, bytes]:
        """The response header that brings the timeline, or says where it is."""
        encoded = orjson.dumps(timeline.to_builtins())
        if len(encoded) <= _HEADER_BYTES:
            return b"trilith-timeline", encoded
        # Not under the request's id: clients choose those, and would find or overwrite each other's.
        token = secrets.token_hex(12)
        self._kept[token] = encoded
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return b"trilith-timeline-at", (PATH + token).encode()

    def find(self, path: str) -> bytes:
        """The timeline (JSON, `Timeline.to_builtins`) at a path that a header gave.

        Raises:
            NotFound: it is not kept, or not any more.
        """
        try:
            return self._kept[path.removeprefix(PATH)]
        except KeyError:
            raise NotFound(
                f"there is no timeline at {path}; the last {_KEPT} long ones are kept, of requests with the header"
                " `trilith-timeline: 1`"
            ) from None
