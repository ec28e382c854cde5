"""How the items of a stream are written, each by itself: which content types a method offers and takes.

What a call says                                        is how its items come
content type (of the items that go in)
    application/jsonl, application/x-ndjson             bytes of a text of lines, cut anywhere; each line is an item
    application/json                                    one JSON value each (a message of a websocket, say)
    application/octet-stream                            bytes each
    application/x-trilith                               in native encoding each: another service sends them
`accept` (of those that come out), the best of `streamed_types`
    text/event-stream, application/jsonl, x-ndjson      one JSON value each, which the gateway puts into a frame
    text/plain                                          the text itself
    application/octet-stream                            the bytes themselves

An item whose frame names a content type of its own (`Item.meta`) is of that.
"""

from __future__ import annotations

from typing import Final

from trilith.service.codecs import media
from trilith.service.signature import Kind, ValueType
from trilith.wire.stream_answers import chosen_type
from trilith.wire.stream_formats import BYTES, FORMATS, JSON_LINES, ND_JSON, SSE, TEXT

LINES: Final = frozenset({JSON_LINES, ND_JSON})


def streamed_types(result: ValueType) -> tuple[str, ...]:
    """The content types that a stream of such items can be written as, the default first."""
    if result.kind is Kind.BYTES and not result.many and not result.optional:
        return (BYTES, SSE, JSON_LINES, ND_JSON)
    if result.annotation is str:
        return (SSE, JSON_LINES, ND_JSON, TEXT)
    return (SSE, JSON_LINES, ND_JSON)


def taken_types(value: ValueType) -> tuple[str, ...]:
    """The content types of a body that is a stream of such items, the preferred one first."""
    if value.kind is Kind.BYTES and not value.many:
        return (media.BINARY, JSON_LINES, ND_JSON)
    return (JSON_LINES, ND_JSON)


def payload_type(accept: str | None, offered: tuple[str, ...], where: str) -> str:
    """What each item is written as by itself, for a caller that accepts that.

    Raises:
        NotAcceptable: it accepts nothing that is offered.
    """
    if accept == media.JSON:  # a front that frames items by itself
        return media.JSON
    return FORMATS[chosen_type(accept, offered, where)].payload
