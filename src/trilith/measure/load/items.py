"""How many items of a stream are in a chunk: server-sent events, JSON lines, pieces of text. Pure."""

from __future__ import annotations

from typing import Final, Protocol

from trilith.wire.json_lines import LineSplitter
from trilith.wire.sse import EventReader
from trilith.wire.stream_formats import FORMATS, JSON_LINES, ND_JSON, SSE

CHUNKS: Final = "chunks"
"""Any chunked answer: each piece that arrives is an item."""


class ItemCounter(Protocol):
    """Counts the items of one answer."""

    def push(self, chunk: bytes) -> int:
        """Takes the next chunk; how many items are complete with it that were not before."""
        ...


class _Events:
    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader = EventReader()

    def push(self, chunk: bytes) -> int:
        """Events with data; comments that keep a connection alive are none."""
        return len(self._reader.push(chunk))


class _Lines:
    __slots__ = ("_splitter",)

    def __init__(self) -> None:
        self._splitter = LineSplitter()

    def push(self, chunk: bytes) -> int:
        """Lines that are not blank."""
        return len(self._splitter.push(chunk))


class _Chunks:
    __slots__ = ()

    def push(self, chunk: bytes) -> int:
        """Each chunk is one."""
        return 1


def item_counter(content_type: str) -> ItemCounter:
    """The counter for a stream of this content type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == SSE:
        return _Events()
    return _Lines() if kind in (JSON_LINES, ND_JSON) else _Chunks()


def is_stream(content_type: str) -> bool:
    """Whether answers of this content type are streams of items by what they say themselves."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in (SSE, JSON_LINES, ND_JSON) and kind in FORMATS
