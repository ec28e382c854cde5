"""The streamed call of an HTTP request, ready to be submitted: the same for streams, websockets and mounts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from trilith.net.http1 import HttpRequest
from trilith.net.transport import Buffer
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.stream_calls import StreamCall, StreamSink
from trilith.orchestration.engine.tracer import Tracer
from trilith.telemetry import Span
from trilith.wire.call_headers import CallHeaders
from trilith.wire.calls import pack_call

CallT = TypeVar("CallT", bound=StreamCall)
Traced = tuple[Span | None, msgspec.Raw]
"""The span of a call, None when it is not sampled; and what its service reads of its headers."""


def traced(tracer: Tracer | None, request: HttpRequest, headers: CallHeaders) -> Traced:
    """Begins the span of a request's call."""
    if tracer is None:
        return None, headers.forwarded
    return tracer.begin(headers.forwarded, request.request_id, identity=request.identity, asked=headers.trace)


def requested_call(
    make: type[CallT],
    request: HttpRequest,
    headers: CallHeaders,
    trace: Traced,
    *,
    route: MethodRoute,
    method: str,
    content_type: str,
    buffers: Sequence[Buffer],
    sink: StreamSink,
) -> CallT:
    """The call of a request.

    Args:
        make: its class.
        request: whose.
        headers: what of it matters to a call.
        trace: what `traced` gave.
        route: where it goes.
        method: what is called there.
        content_type: of the buffers.
        buffers: the arguments.
        sink: takes the items and the answer.
    """
    span, forwarded = trace
    now = time.monotonic()
    meta = pack_call(
        route.service,
        method,
        content_type,
        request.request_id,
        forwarded,
        trace=headers.trace or span is not None,
        query=request.query,
        client=request.peer,
        identity=request.identity,
    )
    call = make(
        route,
        meta,
        buffers,
        received_at=request.received_at,
        submitted_at=now,
        whole_at=now + headers.timeout_s if headers.timeout_s < math.inf else math.inf,
        sink=sink,
        trace=headers.trace,
    )
    call.span = span
    return call
