"""Model calls of replicas, answered by the node's runtime.

Rule 1: the callback path of the runtime; no task a call. The tensors are views of the frame's buffers: no copy inwards.
Rule 2: a call of a replica whose revision's models are still being loaded waits for them; it is not refused. Replicas
        of other revisions do not notice.
"""

from __future__ import annotations

import time

from trilith.core.context import Context
from trilith.core.request import InferResponse
from trilith.core.timeline import ANSWERED, RECEIVED, Timeline
from trilith.errors import Cancelled, NotFound, TrilithError
from trilith.net.transport import IncomingCall
from trilith.orchestration.engine.early_calls import TAKEN_BACK, EarlyCalls
from trilith.orchestration.engine.model_wire import INFER, SIGNATURE, pack_signature
from trilith.runtime import Runtime
from trilith.service import ModelSignature
from trilith.wire.calls import TENSORS_CONTENT_TYPE, CallMeta, ResultMeta, pack_meta
from trilith.wire.tensors import pack_response, unpack_request


class ModelDesk:
    """Takes model calls."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._prepared: set[int] = set()
        self._waiting = EarlyCalls("the models of its revision")

    def prepared(self, revision: int) -> None:
        """The models of a revision are loaded, or will not be: what its replicas ask is answered from now on."""
        self._prepared.add(revision)
        for call in self._waiting.take(revision):
            self.take(call.incoming, call.meta, revision)

    def take(self, incoming: IncomingCall, meta: CallMeta, revision: int) -> None:
        """Answers a call of a replica of that revision, now or later."""
        if incoming.cancelled:
            incoming.fail(Cancelled.code, TAKEN_BACK)
        elif revision not in self._prepared:
            self._waiting.keep(incoming, meta, revision)
        else:
            try:
                self._answer(incoming, meta)
            except TrilithError as error:
                incoming.fail_error(error)

    def _answer(self, incoming: IncomingCall, meta: CallMeta) -> None:
        if meta.method == INFER:
            self._infer(incoming, meta)
        elif meta.method == SIGNATURE:
            model = self._runtime.model(meta.content_type)
            signature = ModelSignature(
                inputs=model.inputs,
                outputs=model.outputs,
                metadata=model.metadata,
                max_batch_size=model.max_batch_size,
            )
            incoming.result(pack_meta(ResultMeta("application/msgpack")), [pack_signature(signature)])
        else:
            raise NotFound(f"a model has no method {meta.method!r}")

    def _infer(self, incoming: IncomingCall, meta: CallMeta) -> None:
        incoming.begin()
        request = unpack_request(incoming.buffers)
        timeline = Timeline(f"gateway model {request.model}", 3)
        timeline.mark(RECEIVED, incoming.received_at)
        context = Context(request_id=meta.request_id, timeline=timeline, deadline=incoming.deadline)

        def done(outcome: InferResponse | TrilithError) -> None:
            if isinstance(outcome, TrilithError):
                incoming.fail_error(outcome)
                return
            traced = None
            if meta.trace:
                timeline.mark(ANSWERED, time.monotonic())
                traced = timeline.to_builtins()
            result = pack_meta(ResultMeta(content_type=TENSORS_CONTENT_TYPE, timeline=traced))
            incoming.result(result, pack_response(outcome))

        ticket = self._runtime.submit(request, context, done)

        def cancelled() -> None:
            ticket.cancel()  # from here on `done` is not called: the answer that is still due is given here
            incoming.fail(Cancelled.code, TAKEN_BACK)

        incoming.on_cancel = cancelled
