"""What each gRPC path leads to. The gateway's only gRPC application, beside what gRPC itself defines.

    /package.Service/Method             the services of the application
    everything else                     the Open Inference Protocol: the models of this node

Rule: a message of a service goes to a replica as it came. Nothing here reads it, and no task is made for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from trilith.errors import DeadlineExceeded, NoReadyReplica, TrilithError, Unsupported
from trilith.net.grpc import Answer, GrpcApp, GrpcCall, GrpcCompression
from trilith.net.transport import Buffer
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.orchestration.engine.grpc_fields import CallMetadata, answer_fields, fields_of, read_metadata
from trilith.orchestration.engine.grpc_offer import GrpcOffer
from trilith.orchestration.engine.grpc_streams import GrpcStreamSink
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import timeline_header
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import Span, TimelineShelf
from trilith.wire.calls import MESSAGE_CONTENT_TYPE, pack_call, unpack_result

_OWN: Final = (b"/inference.", b"/grpc.")


class GrpcFront:
    """Routes gRPC calls.

    Attributes:
        starting: an application is to come, and is not there yet.
    """

    def __init__(
        self,
        router: Router,
        *,
        models: GrpcApp,
        timelines: TimelineShelf,
        compressions: Sequence[GrpcCompression] = (),
        tracer: Tracer | None = None,
    ) -> None:
        """Args:
        router: takes the calls of services.
        models: answers every path that no service has.
        timelines: those that are too long for metadata.
        compressions: of answers, the best first.
        tracer: samples calls; None traces nothing.
        """
        self._router = router
        self._models = models
        self._timelines = timelines
        self._compressions = compressions
        self._tracer = tracer
        self._offer = GrpcOffer()
        self._paths = self._offer.paths
        self.starting = False

    def serve(self, offer: GrpcOffer) -> None:
        """Replaces the services."""
        self._offer = offer
        self._paths = offer.paths

    def health(self, service: str) -> bool | None:
        """Whether a gRPC service has a replica that serves, or ("") all services have; None: there is no such one."""
        if service == "":
            return not self.starting and self._router.ready()
        name = self._offer.services.get(service)
        return None if name is None else name not in self._router.not_ready()

    def method_at(self, path: str) -> str:
        """The method of a service at a path, `Ocr.read`; "" for none."""
        route = self._paths.get(path.encode("latin-1", "replace"))
        return "" if route is None else f"{route.service}.{route.method}"

    def __call__(self, call: GrpcCall) -> Answer:
        """Answers a call, now or later."""
        route = self._paths.get(call.path)
        if route is not None:
            self._submit(call, route)
            return None
        if not call.path.startswith(_OWN):
            if self.starting:
                raise NoReadyReplica("the application is not loaded yet; try again in a moment")
            if self._paths:
                raise Unsupported(
                    f"there is no method {call.path[:200].decode('latin-1')}; there are the methods of"
                    f" {', '.join(self._offer.services)}"
                )
        return self._models(call)

    def _submit(self, call: GrpcCall, route: MethodRoute) -> None:
        for each in self._compressions:
            if call.accepts(each.name):
                call.compression = each
                break
        metadata = read_metadata(call.metadata_fields)
        span: Span | None = None
        asked = metadata.trace
        if self._tracer is not None:
            span, metadata = self._traced(call, metadata)
        packed = _packed(call, route, metadata)
        now = time.monotonic()
        pending: PendingCall
        if route.streaming:
            pending = self._stream(call, route, packed, now, trace=asked)
        else:
            deadline, limit = call.deadline, now + route.timeout_s
            pending = PendingCall(
                route,
                packed,
                (call.message,),
                received_at=call.received_at,
                submitted_at=now,
                # The caller may shorten the method's time limit, never lengthen it.
                deadline=limit if deadline is None or deadline > limit else deadline,
                sink=_GrpcSink(call, self._timelines),
                trace=metadata.trace,
            )
        pending.span = span
        call.on_cancel = lambda: self._gone(call, pending)
        try:
            self._router.submit(pending)
        except TrilithError as error:
            self._router.fail(pending, error)

    def _traced(self, call: GrpcCall, metadata: CallMetadata) -> tuple[Span | None, CallMetadata]:
        """The span of a call, and what its service reads of its metadata."""
        if self._tracer is None:
            return None, metadata
        span, forwarded = self._tracer.begin(
            metadata.forwarded, call.request_id, identity=call.identity, asked=metadata.trace
        )
        return span, CallMetadata(forwarded, metadata.trace or span is not None)

    def _stream(self, call: GrpcCall, route: MethodRoute, packed: bytes, now: float, *, trace: bool) -> StreamCall:
        """`trace`: its timeline is asked for; one that is sampled alone goes to the collector and not to the client."""
        sink = GrpcStreamSink(call, self._router, self._timelines)
        pending = StreamCall(
            route,
            packed,
            (call.message,),
            received_at=call.received_at,
            submitted_at=now,
            whole_at=math.inf if call.deadline is None else call.deadline,
            sink=sink,
            trace=trace,
        )
        if route.takes:
            sink.read(pending)
        else:
            pending.end()
        return pending

    def _gone(self, call: GrpcCall, pending: PendingCall) -> None:
        if call.deadline is not None and time.monotonic() >= call.deadline:
            self._router.cancel(pending, DeadlineExceeded("the call's deadline passed before there was an answer"))
        else:
            self._router.cancel(pending)


def _packed(call: GrpcCall, route: MethodRoute, metadata: CallMetadata) -> bytes:
    """The envelope of a call."""
    return pack_call(
        route.service,
        route.method,
        MESSAGE_CONTENT_TYPE,
        call.request_id,
        metadata.forwarded,
        trace=metadata.trace,
        query="",
        client=call.peer,
        identity=call.identity,
    )


class _GrpcSink:
    """Answers a gRPC call. What was to be told of its end holds the call, and is forgotten with the answer."""

    __slots__ = ("_call", "_timelines")

    def __init__(self, call: GrpcCall, timelines: TimelineShelf) -> None:
        self._call = call
        self._timelines = timelines

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Sends the message; the headers that the method set, and the timeline when it was asked for, as trailers."""
        message: Buffer = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        if call.trace:
            result = unpack_result(meta)
            timeline = timeline_header(call, call.timeline(nested_timeline(meta)), self._timelines)
            self._call.reply(message, trailers=[*answer_fields(result), timeline])
        else:
            self._call.reply(message, trailers=fields_of(meta))
        self._call.on_cancel = None

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Sends the status."""
        self._call.on_cancel = None
        self._call.fail_error(error)
