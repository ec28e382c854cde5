"""How a client gets the timeline that it asked for, over HTTP and over gRPC alike.

Rule 1: a timeline that every client can read in a header (in gRPC: an entry of metadata) is sent in `trilith-timeline`.
Rule 2: a longer one (a page of text is hundreds of calls) is kept a while; `trilith-timeline-at` says where: a path of
    the HTTP port. Only the last few are kept: it is a tool for looking, not a store.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Final

import orjson

from trilith.core.timeline import TIMELINE_AT_HEADER, TIMELINE_HEADER, Timeline
from trilith.errors import NotFound

TIMELINES_PATH: Final = "/timelines/"

_HEADER_BYTES: Final = 8000  # clients of gRPC take 8192 bytes of metadata unless told otherwise, those of HTTP more
_KEPT: Final = 64


class TimelineShelf:
    """The last long timelines, each under a name that nobody can guess. One for all protocols of a server."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def header(self, timeline: Timeline) -> tuple[bytes, bytes]:
        """The response header that brings the timeline, or says where it is."""
        encoded = orjson.dumps(timeline.to_builtins())
        if len(encoded) <= _HEADER_BYTES:
            return TIMELINE_HEADER, encoded
        path, header = self.promise()
        self._keep(path, encoded)
        return header

    def promise(self) -> tuple[str, tuple[bytes, bytes]]:
        """The path of a timeline that is kept later, when its call is over, and the response header that says it."""
        # Not under the request's id: clients choose those, and would find or overwrite each other's.
        path = TIMELINES_PATH + secrets.token_hex(12)
        return path, (TIMELINE_AT_HEADER, path.encode())

    def keep(self, path: str, timeline: Timeline) -> None:
        """Keeps the timeline of a path that was promised."""
        self._keep(path, orjson.dumps(timeline.to_builtins()))

    def _keep(self, path: str, encoded: bytes) -> None:
        self._kept[path] = encoded
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def find(self, path: str) -> bytes:
        """The timeline at a path that a header gave.

        Raises:
            NotFound: it is not kept, or not any more.
        """
        try:
            return self._kept[path]
        except KeyError:
            raise NotFound(
                f"there is no timeline at {path}; the last {_KEPT} long ones are kept, of requests with the header"
                " `trilith-timeline: 1`"
            ) from None
