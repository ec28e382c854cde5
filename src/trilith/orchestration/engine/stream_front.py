"""Streaming methods over HTTP: the items of a call as server-sent events, JSON lines, text or bytes, either way.

Rule 1: no task a call. The request's body feeds the call, and the call's items the answer, by callbacks.
Rule 2: the head is sent with the first item, so that a failure before it has the status of its own.
Rule 3: an item is passed on when the client has room for it. One that reads slowly holds the method that it called, and
    neither the connection to the replica nor the memory of this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from trilith.errors import CapacityError, TrilithError
from trilith.net.http1 import HttpRequest, StreamedAnswer
from trilith.net.transport import Buffer, Item
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.orchestration.engine.requested import requested_call, traced
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import NOT_BEGUN, answer_head
from trilith.orchestration.engine.stream_calls import ItemGate, StreamCall
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import TimelineShelf
from trilith.wire.call_headers import CallHeaders
from trilith.wire.calls import unpack_result
from trilith.wire.http_status import error_body, http_status
from trilith.wire.stream_answers import STREAM_HEADERS, Silence, check_items, chosen_type
from trilith.wire.stream_formats import FORMATS, StreamFormat


class HttpStreams:
    """Takes the requests to streaming methods.

    Args:
        router: takes the calls.
        timelines: where those of streams are kept.
        keep_alive_s: a stream of events that is silent for so long gets a comment; 0 for never.
        tracer: samples calls; None traces nothing.
    """

    def __init__(
        self, router: Router, timelines: TimelineShelf, *, keep_alive_s: float, tracer: Tracer | None = None
    ) -> None:
        self._router = router
        self._timelines = timelines
        self._keep_alive_s = keep_alive_s
        self._tracer = tracer

    def take(
        self, request: HttpRequest, route: MethodRoute, headers: CallHeaders, body: bytes | memoryview
    ) -> HttpStreamSink:
        """Calls a streaming method. `body`: its arguments, where the request's body is not a stream of items itself.

        Raises:
            NotAcceptable: the client takes no form in which the items could be sent.
            UnsupportedMediaType: the body is no stream of items that the method reads.
        """
        where = f"{route.service}.{route.method}"
        form = chosen_type(headers.accept, route.offers, where) if route.streams_out else None
        if route.takes:
            check_items(headers.content_type, route.takes, where)
        sink = HttpStreamSink(request, self._router, self._timelines, form, keep_alive_s=self._keep_alive_s)
        call = requested_call(
            StreamCall,
            request,
            headers,
            traced(self._tracer, request, headers),
            route=route,
            method=route.method,
            content_type=headers.content_type,
            buffers=(body,),
            sink=sink,
        )
        request.on_disconnect = lambda: self._router.cancel(call)
        request.on_give_up = lambda error: self._router.cancel(call, error)
        if route.takes:
            sink.read(call)
        else:
            call.end()
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)
        return sink


class HttpStreamSink:
    """One request to a streaming method: where its items come from, and where those of the method go."""

    __slots__ = (
        "_answer",
        "_call",
        "_ended",
        "_form",
        "_gate",
        "_keep_alive_s",
        "_kind",
        "_over",
        "_promised",
        "_request",
        "_router",
        "_silence",
        "_timelines",
        "_timer",
    )

    def __init__(
        self,
        request: HttpRequest,
        router: Router,
        timelines: TimelineShelf,
        content_type: str | None,
        *,
        keep_alive_s: float,
    ) -> None:
        """`content_type`: of the items; None when the method has one result."""
        self._request = request
        self._router = router
        self._timelines = timelines
        self._kind = content_type
        self._form: StreamFormat | None = None if content_type is None else FORMATS[content_type]
        self._answer: StreamedAnswer | None = None
        self._call: StreamCall | None = None
        self._gate = ItemGate()
        self._keep_alive_s = keep_alive_s
        self._timer: asyncio.TimerHandle | None = None
        self._silence: Silence | None = None
        self._promised = ""
        self._over: asyncio.Event | None = None
        self._ended = False

    # From the client to the method.

    def read(self, call: StreamCall) -> None:
        """The request's body is the items of the call."""
        self._call = call
        self._request.when_body(self._body_came)

    def writable(self, call: StreamCall) -> None:
        """The method wants items."""
        self._pump(call)

    def _body_came(self) -> None:
        call = self._call
        if call is None or call.settled:
            return
        self._pump(call)
        failure = self._request.body_failure
        if failure is not None and not call.settled:
            self._router.cancel(call, failure)

    def _pump(self, call: StreamCall) -> None:
        request = self._request
        while call.writable:
            chunk = request.take_body()
            if not chunk:
                break
            call.send((chunk,))
        if request.body_ended:
            call.end()

    # From the method to the client.

    def item(self, call: StreamCall, item: Item) -> None:
        """Writes an item; the first one with the head before it."""
        if self._answer is None:
            try:
                self._begin(call, item.meta)
            except TrilithError as error:  # the method said something of the answer that cannot be sent
                self._router.cancel(call, error)
        if self._answer is None or self._form is None:
            return
        buffers = item.buffers
        roomy = self._answer.write(self._form.item(bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)))
        if self._silence is not None:
            self._silence.wrote_at = call.last_item_at
        self._gate.wrote(call, item.size_bytes, roomy=roomy, when_writable=self._answer.when_writable)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Ends the items, or writes the one result."""
        if self._form is None:
            self._respond(call, meta, buffers)
        elif isinstance(call, StreamCall) and (self._answer is not None or self._begin(call, meta)):
            if self._promised:
                self._timelines.keep(self._promised, call.timeline(nested_timeline(meta)))
            if self._answer is not None:
                self._answer.finish()
        self._end()

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Writes the error: with its status before the first item, in the form of the stream after it."""
        request, answer, form = self._request, self._answer, self._form
        if answer is None or form is None:
            refused = call.attempt == 0 and isinstance(error, CapacityError)
            request.respond_error(error, headers=NOT_BEGUN if refused else ())
        elif not request.gone:
            body = error_body(error, request.request_id)
            answer.log_failure(http_status(error), body)
            if form.failure is None:
                answer.abort()
            else:
                answer.write(form.failure(body))
                answer.finish()
        if self._promised:
            self._timelines.keep(self._promised, call.timeline(None))
        self._end()

    def _begin(self, call: StreamCall, meta: bytes) -> bool:
        """Sends the head. `meta`: what the method said of it, if anything: of its first item, or of its end."""
        _, status, said = answer_head(unpack_result(meta)) if meta else (b"", 200, ())
        headers: tuple[tuple[bytes, bytes], ...] = (*STREAM_HEADERS, *said)
        if call.trace:
            self._promised, header = self._timelines.promise()
            headers = (*headers, header)
        kind = (self._kind or "").encode("latin-1")
        self._answer = self._request.begin(status, content_type=kind, headers=headers)
        if self._answer is None:
            return False
        silence = Silence(self._form, self._keep_alive_s, time.monotonic())
        if not silence.may_last:
            self._silence = silence
            self._timer = asyncio.get_running_loop().call_later(self._keep_alive_s, self._keep_alive)
        return True

    def _keep_alive(self) -> None:
        answer, silence = self._answer, self._silence
        if answer is None or silence is None:
            return
        now = time.monotonic()
        if silence.is_over(now) and not self._gate:
            answer.write(silence.comment)
            silence.wrote_at = now
        later_s = self._keep_alive_s if self._gate else silence.left_s(now)
        self._timer = asyncio.get_running_loop().call_later(later_s, self._keep_alive)

    def _respond(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        body: Buffer = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        content_type, status, headers = answer_head(unpack_result(meta))
        if call.trace:
            headers = (*headers, self._timelines.header(call.timeline(nested_timeline(meta))))
        self._request.respond(status, body, content_type=content_type, headers=headers)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._request.ignore_body()
        self._request.on_give_up = None
        self._answer = self._call = self._timer = None
        self._gate.clear()
        self._ended = True
        if self._over is not None:
            self._over.set()

    async def wait_over(self) -> None:
        """Returns when the answer is written: for who answers in a task."""
        if not self._ended:
            self._over = asyncio.Event()
            await self._over.wait()
