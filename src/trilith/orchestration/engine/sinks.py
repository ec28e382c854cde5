"""Where answers go: to an HTTP client, or to the replica that called another service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from trilith.core.timeline import Timeline
from trilith.errors import Bug, CapacityError, TrilithError
from trilith.net.http1 import HttpRequest
from trilith.net.transport import Buffer, IncomingCall
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.telemetry import TimelineShelf
from trilith.wire.calls import NOT_BEGUN_HEADER, ResultMeta, pack_meta, unpack_result

NOT_BEGUN: Final = ((NOT_BEGUN_HEADER.encode(), b"1"),)
"""The headers of an answer to a call that no replica had."""

_KNOWN_BYTES: Final = 80

_Head = tuple[bytes, int, tuple[tuple[bytes, bytes], ...]]
"""Content type, status and further headers of an answer."""


class HttpSink:
    """Answers an HTTP request."""

    __slots__ = ("_request", "_timelines")

    def __init__(self, request: HttpRequest, timelines: TimelineShelf) -> None:
        self._request = request
        self._timelines = timelines

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Writes the result with its content type, and the timeline when it was asked for."""
        body: Buffer = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        if call.trace:
            result = unpack_result(meta)
            content_type, status, headers = answer_head(result)
            told = timeline_header(call, call.timeline(nested_timeline(meta)), self._timelines)
            self._request.respond(status, body, content_type=content_type, headers=(*headers, told))
        else:
            content_type, status, headers = (_known_head if len(meta) <= _KNOWN_BYTES else _read_head)(meta)
            self._request.respond(status, body, content_type=content_type, headers=headers)

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Writes the error, and whether the call may be sent again for sure: no replica had it."""
        refused = call.attempt == 0 and isinstance(error, CapacityError)
        self._request.respond_error(error, headers=NOT_BEGUN if refused else ())


def timeline_header(call: PendingCall, timeline: Timeline, shelf: TimelineShelf) -> tuple[bytes, bytes]:
    """The header that brings the timeline to who asked for it; for who did not, the one that names its trace."""
    span = call.span
    if span is None:
        return shelf.header(timeline)
    span.timeline = timeline
    return shelf.header(timeline) if span.asked else span.header


def answer_head(result: ResultMeta) -> _Head:
    """What a method says of its answer, for HTTP."""
    headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in result.headers)
    return result.content_type.encode("latin-1"), result.status, headers


def _read_head(meta: bytes) -> _Head:
    return answer_head(unpack_result(meta))


_known_head: Final = lru_cache(maxsize=128)(_read_head)
"""The heads of answers without a timeline: a method's answers nearly all have the same. Long ones are read each time:
they say something of one call alone."""


class AwaitedHttpSink(HttpSink):
    """Answers an HTTP request for which a task waits: `answered` is set when it is done."""

    __slots__ = ("answered",)

    def __init__(self, request: HttpRequest, timelines: TimelineShelf) -> None:
        super().__init__(request, timelines)
        self.answered = asyncio.Event()

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Writes the result, and lets the task go."""
        super().answer(call, meta, buffers)
        self.answered.set()

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Writes the error, and lets the task go."""
        super().fail(call, error)
        self.answered.set()


class PeerSink:
    """Answers a replica that called another service."""

    __slots__ = ("_incoming",)

    def __init__(self, incoming: IncomingCall) -> None:
        self._incoming = incoming

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Passes the result on untouched, or with the gateway's part of the timeline round it."""
        if call.trace:
            result = unpack_result(meta)
            timeline = call.timeline(nested_timeline(meta)).to_builtins()
            meta = pack_meta(ResultMeta(result.content_type, timeline=timeline))
        self._incoming.result(meta, buffers)

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Passes the error on by its code."""
        if isinstance(error, Bug):
            error = Bug(f"{call.route.service}.{call.route.method}: {error.message}")
        self._incoming.fail_error(error)
