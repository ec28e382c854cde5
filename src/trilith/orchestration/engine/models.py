"""Model calls of replicas, answered by the node's runtime.

Rule: the callback path of the runtime; no task a call. The tensors are views of the frame's buffers: no copy inwards.
"""

from __future__ import annotations

import time

from trilith.core.context import Context
from trilith.core.request import InferResponse
from trilith.core.timeline import ANSWERED, RECEIVED, Timeline
from trilith.errors import TrilithError
from trilith.net.transport import IncomingCall
from trilith.runtime import Runtime
from trilith.wire.calls import TENSORS_CONTENT_TYPE, CallMeta, ResultMeta, pack_meta
from trilith.wire.tensors import pack_response, unpack_request


def infer(runtime: Runtime, incoming: IncomingCall, meta: CallMeta) -> None:
    """Runs the model that the call names; answers through `incoming`, now or later.

    Raises:
        TrilithError: the request is refused at once.
    """
    incoming.begin()
    request = unpack_request(incoming.buffers)
    timeline = Timeline(f"gateway model {request.model}", 3)
    timeline.mark(RECEIVED, incoming.received_at)
    context = Context(request_id=meta.request_id, timeline=timeline, deadline=incoming.deadline)

    def done(outcome: InferResponse | TrilithError) -> None:
        if isinstance(outcome, TrilithError):
            incoming.fail(outcome.code, outcome.message)
            return
        traced = None
        if meta.trace:
            timeline.mark(ANSWERED, time.monotonic())
            traced = timeline.to_builtins()
        result = pack_meta(ResultMeta(content_type=TENSORS_CONTENT_TYPE, timeline=traced))
        incoming.result(result, pack_response(outcome))

    ticket = runtime.submit(request, context, done)
    incoming.on_cancel = ticket.cancel
