"""Where answers go: to an HTTP client, or to the replica that called another service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache

from trilith.core.timeline import Timeline
from trilith.errors import Bug, TrilithError
from trilith.net.http1 import HttpRequest
from trilith.net.transport import Buffer, IncomingCall
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.timelines import TimelineShelf
from trilith.wire.calls import ResultMeta, pack_meta, unpack_result
from trilith.wire.http_status import error_body, http_status, retry_after

_Head = tuple[int, bytes, tuple[tuple[bytes, bytes], ...]]  # status, content type, further headers


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
            status, content_type, headers = _head(result)
            nested = Timeline.from_builtins(result.timeline) if result.timeline is not None else None
            headers = (*headers, self._timelines.header(call.timeline(nested)))
        else:
            status, content_type, headers = _plain_head(meta)
        self._request.respond(status, body, content_type=content_type, headers=headers)

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Writes the error."""
        respond_error(self._request, error)


def _head(result: ResultMeta) -> _Head:
    headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in result.headers or ())
    return result.status, result.content_type.encode("latin-1"), headers


@lru_cache(maxsize=128)
def _plain_head(meta: bytes) -> _Head:
    """The head that an answer without a timeline asks for. A method's answers nearly all ask for the same."""
    return _head(unpack_result(meta))


def respond_error(request: HttpRequest, error: TrilithError, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Answers a request with an error of the tree, as JSON."""
    again = retry_after(error)
    more = [(b"retry-after", again)] if again is not None else []
    request.respond(http_status(error), error_body(error, request.request_id), headers=[*headers, *more])


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
            nested = Timeline.from_builtins(result.timeline) if result.timeline is not None else None
            timeline = call.timeline(nested).to_builtins()
            meta = pack_meta(
                type(result)(
                    content_type=result.content_type, status=result.status, headers=result.headers, timeline=timeline
                )
            )
        self._incoming.result(meta, buffers)

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Passes the error on by its code."""
        if isinstance(error, Bug):
            error = Bug(f"{call.route.service}.{call.route.method}: {error.message}")
        self._incoming.fail_error(error)
