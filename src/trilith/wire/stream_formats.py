"""How items of a stream are framed over HTTP: server-sent events, JSON lines, text, bytes. Sans-I/O.

Rule 1: an item comes as what it is by itself (`payload`: JSON, text or bytes, by the content type); here it only gets
    its frame. Nothing is parsed.
Rule 2: a failure midway is an item of another kind where the format has one. Where it has none (text, bytes) the
    connection is cut, so that nobody takes a part for the whole.

The events are those of the HTML Living Standard, section 9.2 (server-sent events).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SSE: Final = "text/event-stream"
JSON_LINES: Final = "application/jsonl"
ND_JSON: Final = "application/x-ndjson"
TEXT: Final = "text/plain; charset=utf-8"
BYTES: Final = "application/octet-stream"
JSON: Final = "application/json"

ERROR_EVENT: Final = b"error"


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """One content type of a stream.

    Attributes:
        payload: content type of each item by itself.
        item: the frame round an item.
        failure: the frame round an error's JSON; None: the format has none.
        keep_alive: what may be sent while there is no item, b"" when nothing may.
    """

    payload: str
    item: Callable[[bytes], bytes]
    failure: Callable[[bytes], bytes] | None = None
    keep_alive: bytes = b""


def event(data: bytes, name: bytes = b"") -> bytes:
    """One server-sent event; data of several lines becomes as many fields, which its reader joins again."""
    head = b"event: " + name + b"\n" if name else b""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return head + b"data: " + data + b"\n\n"


def _failure_event(error: bytes) -> bytes:
    return event(error, ERROR_EVENT)


def line(data: bytes) -> bytes:
    """One line of JSON, which has no line break by itself."""
    return data + b"\n"


def _as_it_is(data: bytes) -> bytes:
    return data


_LINES: Final = StreamFormat(JSON, line, line)
FORMATS: Final[dict[str, StreamFormat]] = {
    SSE: StreamFormat(JSON, event, _failure_event, b":\n\n"),
    JSON_LINES: _LINES,
    ND_JSON: _LINES,
    TEXT: StreamFormat(TEXT, _as_it_is),
    BYTES: StreamFormat(BYTES, _as_it_is),
}
"""The formats by content type."""
