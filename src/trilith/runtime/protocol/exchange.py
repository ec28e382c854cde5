"""One inference request between its front and the runtime: the same for HTTP and gRPC.

Rule 1: no task. The runtime calls back, and the answer is written in that call.
Rule 2: every exchange ends exactly once: answered, failed or abandoned. What comes later is ignored.
Rule 3: stamps are taken here, so that both protocols mean the same by them.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trilith.core.clock import Clock, MonotonicClock
from trilith.core.context import Context
from trilith.core.request import InferResponse
from trilith.core.tensor import TensorSpec
from trilith.core.timeline import ANSWERED, DECODED, ENCODED, RECEIVED, Timeline
from trilith.errors import (
    Bug,
    Cancelled,
    DeadlineExceeded,
    Draining,
    NoReadyReplica,
    QueueFull,
    QueueTimeout,
    TrilithError,
    UnknownModel,
)
from trilith.runtime.protocol.access import Forwarding
from trilith.runtime.protocol.describe import serving_model
from trilith.telemetry import RequestMetrics, RequestTracer, Span, TimelineShelf
from trilith.wire.oip_classification import classified
from trilith.wire.oip_parameters import InferCall
from trilith.wire.oip_status import oip_message, oip_text
from trilith.wire.oip_tensor import Signature

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import RuntimePort, TicketPort

_OF_THE_QUEUE: Final = (QueueFull, QueueTimeout, Draining, DeadlineExceeded)
_log: Final = logging.getLogger(__name__)


class Front:
    """What all exchanges of one front share.

    Attributes:
        runtime: where requests go.
        protocol: `http` or `grpc`, for metrics.
        metrics: where requests are counted, or None.
        timelines: where those are kept that are too long for a header.
        now: the clock, in seconds.
        compat: whether to answer as Triton does also where its answer is the worse one.
        forwarding: which headers become parameters, or None for none.
        tracer: samples requests; None traces nothing.
    """

    def __init__(
        self,
        runtime: RuntimePort,
        protocol: str,
        metrics: RequestMetrics | None,
        clock: Clock | None,
        *,
        timelines: TimelineShelf | None = None,
        compat: bool = False,
        forward_pattern: str = "",
        tracer: RequestTracer | None = None,
    ) -> None:
        self.runtime = runtime
        self.tracer = tracer
        self.protocol = protocol
        self.compat = compat
        self.forwarding = Forwarding(forward_pattern) if forward_pattern else None
        self.metrics = metrics
        self.timelines = TimelineShelf() if timelines is None else timelines
        self.now = (clock or MonotonicClock()).now
        self._in_flight = None if metrics is None else metrics.in_flight(protocol)
        self._signatures: dict[tuple[str, str], tuple[tuple[TensorSpec, ...], Signature]] = {}

    def signature(self, name: str, version: str) -> Signature:
        """The signature of a model.

        Raises:
            UnknownModel: no such model or version.
            NoReadyReplica: it is not ready.
            LoadFirst: it is loaded when somebody wants it, as is the case now.
        """
        try:
            model = serving_model(self.runtime, name, version)
        except (UnknownModel, NoReadyReplica):
            if self.runtime.absent(name):
                raise LoadFirst(name) from None
            raise
        known = self._signatures.get((name, version))
        # The specs stand for the model: a reloaded one brings new ones. The model itself is not kept alive here.
        if known is not None and known[0] is model.inputs:
            return known[1]
        signature = Signature.of(model.name, model.inputs, model.outputs, model.max_batch_size, model.labels)
        self._signatures[name, version] = (model.inputs, signature)
        return signature

    def began(self) -> None:
        """Counts a request in."""
        if self._in_flight is not None:
            self._in_flight.value += 1

    def ended(self, endpoint: str, method: str, status: str, timeline: Timeline | None) -> None:
        """Counts a request out."""
        if self._in_flight is not None and self.metrics is not None:
            self._in_flight.value -= 1
            self.metrics.finished(self.protocol, endpoint, method, status, timeline)


class LoadFirst(Exception):
    """The model of a request is not in memory yet, and is loaded because of it. Never leaves this file.

    Args:
        model: its name.
    """

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model


class Exchange(ABC):
    """One inference request on its way. The protocols say how to decode, answer and fail."""

    __slots__ = ("call", "failure", "front", "on_over", "over", "request_id", "signature", "span", "ticket", "timeline")

    call: InferCall
    signature: Signature

    def __init__(self, front: Front, received_at: float, request_id: str) -> None:
        self.front = front
        self.request_id = request_id
        self.over = False
        self.on_over: Callable[[], None] | None = None
        self.ticket: TicketPort | None = None
        self.span: Span | None = None
        self.failure: TrilithError | None = None
        self.timeline = Timeline("gateway", 3)
        self.timeline.stamps.append((RECEIVED, received_at))

    def start(self) -> None:
        """Decodes and submits. A refusal is answered here, as is an answer that comes at once."""
        self.front.began()
        self._submit()

    def _submit(self) -> None:
        front = self.front
        decoded = False
        try:
            self.call = call = self.decode()
            decoded = True
            request = call.request
            if self.span is not None:
                self.span.name = f"{request.model}.{self.endpoint}"
            if request.id:
                self.request_id = request.id
            timeline = self.timeline
            timeline.stamps.append((DECODED, front.now()))
            context = Context(request_id=self.request_id, timeline=timeline, deadline=self.deadline)
            self.ticket = front.runtime.submit(request, context, self.done)
        except TrilithError as error:
            self.finish(error, of_runtime=decoded)
        except LoadFirst as first:
            waiter = front.runtime.want(first.model, self._loaded)
            if waiter is not None:
                self.ticket = waiter
        except Exception:  # noqa: BLE001 - a bug of ours, which is logged: the caller gets the protocol's own answer
            _log.exception("reading a request failed (request %s)", self.request_id)
            self.finish(Bug("the request could not be read; the server's log says more"))

    def _loaded(self, error: TrilithError | None) -> None:
        """The model is there, or why it is not. Whoever left meanwhile has been let go."""
        if self.over:
            return
        if error is None:
            self._submit()
        else:
            self.finish(error)

    def done(self, result: InferResponse | TrilithError) -> None:
        """The runtime's callback."""
        if self.over:
            return
        if isinstance(result, TrilithError):
            # What a model says of itself stays as it is.
            self.finish(result, of_runtime=isinstance(result, _OF_THE_QUEUE))
            return
        try:
            if self.call.classes:
                result.outputs = classified(result.outputs, self.call.classes, self.signature)
            self.answer(result)
        except Exception as error:  # noqa: BLE001 - called by the runtime: this request must get its one answer
            self.unanswerable(error)

    def unanswerable(self, error: Exception) -> None:
        """The answer cannot be encoded or sent: the caller is told."""
        if isinstance(error, TrilithError):
            self.finish(error)
            return
        model = self.call.request.model
        _log.error("encoding the answer of model %s failed", model, exc_info=error)
        self.finish(Bug(f"the answer of model '{model}' could not be encoded; the server's log says more"))

    def reject(self, error: TrilithError) -> None:
        """Ends a request that could not even be read."""
        self.front.began()
        self.finish(error)

    def abandon(self) -> None:
        """The caller is gone: takes the request back and answers nothing."""
        ticket = self.ticket
        if not self.over:
            self.failure = Cancelled("the caller went away")
            self.close(self.status_of(self.failure))
        if ticket is not None:
            ticket.cancel()

    def finish(self, error: TrilithError, *, of_runtime: bool = False) -> None:
        """Answers with an error; one that the runtime found names the request by the caller's own id."""
        if self.over:
            return
        self.timeline.stamps.append((ANSWERED, self.front.now()))
        self.failure = error
        front = self.front
        if of_runtime:
            message = oip_message(error, self.call.request.id, compat=front.compat)
        else:
            message = oip_text(error, compat=front.compat)
        try:
            self.fail(error, message)
        finally:
            self.close(self.status_of(error))

    def close(self, status: str) -> None:
        """Marks the end and counts it."""
        self.over = True
        self.ticket = None  # it holds `done`: without this every request would be a cycle for the collector to find
        self.front.ended(self.endpoint, self.method, status, self.timeline)
        span, tracer = self.span, self.front.tracer
        if span is not None and tracer is not None:
            tracer.ended(span, self.timeline, self.failure)
        if self.on_over is not None:
            self.on_over()

    def stamp_answer(self) -> None:
        """Stamps that the answer is encoded and handed over: one instant, because the one follows on the other."""
        instant = self.front.now()
        self.timeline.stamps.append((ENCODED, instant))
        self.timeline.stamps.append((ANSWERED, instant))

    def answer_metadata(self, *, timeline: bool) -> list[tuple[bytes, bytes]]:
        """Headers or entries of metadata of the answer: the timeline, or where it is kept, and the trace."""
        found = [self.front.timelines.header(self.timeline)] if timeline else []
        if self.span is not None:
            found.append(self.span.header)
        return found

    @property
    def endpoint(self) -> str:
        """The endpoint's name, for metrics."""
        return "infer"

    @property
    def deadline(self) -> float | None:
        """The absolute deadline in seconds that the transport brings; the message's `timeout` bounds waiting only."""
        return None

    @property
    @abstractmethod
    def method(self) -> str:
        """The method's name, for metrics."""

    @abstractmethod
    def decode(self) -> InferCall:
        """Reads the message and sets `signature`; raises `TrilithError`."""

    @abstractmethod
    def answer(self, response: InferResponse) -> None:
        """Encodes and sends the response, and closes."""

    @abstractmethod
    def fail(self, error: TrilithError, message: str) -> None:
        """Sends an error with its text."""

    @abstractmethod
    def status_of(self, error: TrilithError) -> str:
        """The text of the status that an error becomes."""
