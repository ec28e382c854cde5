"""The Open Inference Protocol over gRPC: `OipGrpc(runtime)` is a `GrpcApp` for `inference.GRPCInferenceService`.

Rule: what the service lists and is not here answers UNIMPLEMENTED with a sentence, like what it does not list.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from trilith.core.clock import Clock
from trilith.core.request import InferResponse
from trilith.core.timeline import TIMELINE_HEADER
from trilith.errors import Bug, DeadlineExceeded, Draining, InvalidInput, TrilithError, Unsupported
from trilith.runtime.protocol import describe, switched_off
from trilith.runtime.protocol.access import GRPC_PREFIX, Guard, check_model
from trilith.runtime.protocol.exchange import Exchange, Front
from trilith.runtime.protocol.repository import grpc_methods
from trilith.telemetry import TRACEPARENT, RequestMetrics, RequestTracer, TimelineShelf
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.oip_grpc import decode_request, encode_response, parse
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_options import ProtocolOptions, infer_compressions
from trilith.wire.oip_parameters import InferCall
from trilith.wire.oip_status import oip_grpc_status, oip_text

if TYPE_CHECKING:
    from trilith.net.grpc import GrpcCall
    from trilith.runtime.protocol.port import RuntimePort

_log: Final = logging.getLogger(__name__)
_LOADS: Final = (b"ModelMetadata", b"ModelConfig")  # what must be loaded to be told
_TRACEPARENT: Final = TRACEPARENT.encode()
_SERVICE: Final = b"/inference.GRPCInferenceService/"
_DEFAULTS: Final = ProtocolOptions()


class OipGrpc:
    """The unary methods of the inference service.

    Args:
        runtime: the models.
        server_name: what the server metadata calls this server.
        metrics: where requests are counted, or None.
        clock: the source of instants, or None for the machine's.
        timelines: where timelines are kept that are too long for a header: whoever has the HTTP port answers for their
            paths. None for a shelf of its own.
        tracer: samples requests for traces; None traces nothing.
        options: how to behave.

    Attributes:
        exiting: set when the server stops: it is not ready any more, and still answers.
    """

    def __init__(
        self,
        runtime: RuntimePort,
        *,
        server_name: str = "trilith",
        metrics: RequestMetrics | None = None,
        clock: Clock | None = None,
        timelines: TimelineShelf | None = None,
        tracer: RequestTracer | None = None,
        options: ProtocolOptions = _DEFAULTS,
    ) -> None:
        self._front = Front(
            runtime,
            "grpc",
            metrics,
            clock,
            timelines=timelines,
            tracer=tracer,
            compat=options.compat,
            forward_pattern=options.grpc_header_forward_pattern,
        )
        self._runtime = runtime
        self._compat = options.compat
        self._guard = Guard(options.grpc_restricted, prefix=GRPC_PREFIX, noun="protocol")
        self._compressions = infer_compressions(options.grpc_compression)
        self._server_name = options.server_name or ("triton" if options.compat else server_name)
        self.exiting = False
        self.streaming = (_SERVICE + b"ModelStreamInfer",)
        """Paths that are refused with their head, before any message."""
        self._methods: dict[bytes, Callable[[Any], Any]] = {
            b"ServerLive": self._server_live,
            b"ServerReady": self._server_ready,
            b"ServerMetadata": self._server_metadata,
            b"ModelMetadata": self._model_metadata,
            b"ModelConfig": self._model_config,
            b"ModelStatistics": self._model_statistics,
            **{name.encode(): functools.partial(switched_off.answer_grpc, name) for name in switched_off.methods()},
        }
        self._late_methods: dict[bytes, Callable[[Any], Coroutine[Any, Any, Any]]] = {
            **grpc_methods(runtime.repository, whole_causes=options.compat),
            b"ModelReady": self._model_ready,
        }

    def __call__(self, call: GrpcCall) -> Coroutine[Any, Any, None] | None:
        """Answers, or will answer from a callback (None), or when the repository has done what was asked."""
        method = call.path.removeprefix(_SERVICE)
        if self.exiting and self._compat:
            self._refuse_late(call, method)
            return None
        if method == b"ModelInfer":
            exchange = _GrpcExchange(self._front, call)
            for each in self._compressions:
                if call.accepts(each.name):
                    call.compression = each
                    break
            try:
                self._guard.check("ModelInfer", call.header)
            except TrilithError as error:
                exchange.reject(error)
                return None
            call.on_cancel = exchange.abandon
            exchange.start()
            return None
        if (work := self._late_methods.get(method)) is not None:
            return self._answer_late(call, method.decode(), work)
        if method in _LOADS and (model := self._absent_model(call, method)):
            return self._answer_when_present(call, method.decode(), model)
        handler = self._methods.get(method)
        name = method.decode("latin-1") if handler is not None else "other"
        with self._answering(call, name):
            if handler is None:
                raise _unimplemented(call.path)
            self._guard.check(name, call.header)
            call.reply(handler(_allowed(call, parse(f"{name}Request", call.message))).SerializeToString())
        return None

    def _refuse_late(self, call: GrpcCall, method: bytes) -> None:
        """Triton takes no calls when it stops; by default those are served whose clients had not heard of it."""
        known = method == b"ModelInfer" or method in self._methods or method in self._late_methods
        with self._answering(call, method.decode("latin-1") if known else "other"):
            raise Draining("GRPC server is shutting down and has stopped accepting new requests.")

    def _absent_model(self, call: GrpcCall, method: bytes) -> str:
        """The name of the model that is asked about, if it must be loaded first; ""."""
        with contextlib.suppress(TrilithError):  # no such message: said where it is answered
            name: str = parse(f"{method.decode()}Request", call.message).name
            return name if self._runtime.absent(name) else ""
        return ""

    async def _answer_when_present(self, call: GrpcCall, name: str, model: str) -> None:
        with self._answering(call, name):
            self._guard.check(name, call.header)
            _allowed(call, parse(f"{name}Request", call.message))
            await describe.present(self._runtime, model)
            call.reply(self._methods[name.encode()](parse(f"{name}Request", call.message)).SerializeToString())

    async def _answer_late(self, call: GrpcCall, name: str, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        with self._answering(call, name):
            self._guard.check(name, call.header)
            call.reply((await work(_allowed(call, parse(f"{name}Request", call.message)))).SerializeToString())

    @contextlib.contextmanager
    def _answering(self, call: GrpcCall, name: str) -> Iterator[None]:
        """Counts a call in and out, and turns what is raised inside into its status."""
        self._front.began()
        status = GrpcStatus.OK
        try:
            yield
        except TrilithError as error:
            status = oip_grpc_status(error, compat=self._compat)
            call.fail(status, oip_text(error, compat=self._compat))
        except Exception:  # noqa: BLE001 - a bug of ours, which is logged: the caller gets an answer all the same
            _log.exception("answering %s failed", name)
            status = GrpcStatus.INTERNAL
            call.fail_error(Bug(f"{name} failed; the server's log says more"))
        finally:
            self._front.ended(name, name, status.name, None)

    def admit_health(self, call: GrpcCall) -> None:
        """Lets a call to the health service pass, or not: it is in the same group as our own health methods.

        Raises:
            Forbidden: the group is restricted, and the header is missing or wrong.
        """
        self._guard.check("ServerReady", call.header)

    def _server_live(self, _: Any) -> Any:
        return service_messages().ServerLiveResponse(live=True)

    def _server_ready(self, _: Any) -> Any:
        return service_messages().ServerReadyResponse(ready=self._runtime.ready and not self.exiting)

    def _server_metadata(self, _: Any) -> Any:
        return service_messages().ServerMetadataResponse(**describe.server_metadata(self._server_name))

    async def _model_ready(self, request: Any) -> Any:
        ready = await describe.takes_requests(self._runtime, request.name, _version(request.version))
        return service_messages().ModelReadyResponse(ready=ready)

    def _model_metadata(self, request: Any) -> Any:
        model = describe.ready_model(self._runtime, request.name, _version(request.version))
        return service_messages().ModelMetadataResponse(**describe.model_metadata(model))

    def _model_config(self, request: Any) -> Any:
        model = describe.ready_model(self._runtime, request.name, _version(request.version))
        return service_messages().ModelConfigResponse(config=model.config_proto())

    def _model_statistics(self, request: Any) -> Any:
        if request.name:
            self._runtime.model(request.name, _version(request.version))
        found = describe.statistics(self._runtime, request.name or None, request.version)
        return service_messages().ModelStatisticsResponse(**found)


def _allowed(call: GrpcCall, request: Any) -> Any:
    """The request, when its caller may ask the model that it names.

    Raises:
        Forbidden: it may not.
    """
    if call.allows_model is not None:
        check_model(call.allows_model, getattr(request, "name", ""))
    return request


def _version(text: str) -> str:
    """A version, or "" for the newest; in HTTP a path with another one is not found.

    Raises:
        InvalidInput: it is no number.
    """
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidInput(
            f"failed to get model version from specified version string '{text[:100]}' (details: stol), version should "
            "be an integral value > 0"
        )
    return text


class _GrpcExchange(Exchange):
    """One `ModelInfer`."""

    __slots__ = ("_call", "_wants_timeline")

    def __init__(self, front: Front, call: GrpcCall) -> None:
        super().__init__(front, call.received_at, call.request_id)
        self._call = call
        self._wants_timeline = call.header(TIMELINE_HEADER) == b"1"
        if front.tracer is not None:
            given = (call.header(_TRACEPARENT) or b"").decode("latin-1")
            self.span = span = front.tracer.sample(given, call.request_id, identity=call.identity)
            if span is not None:
                span.name = self.endpoint

    @property
    def method(self) -> str:
        return "ModelInfer"

    def decode(self) -> InferCall:
        message = parse("ModelInferRequest", self._call.message)
        if self._call.allows_model is not None:
            check_model(self._call.allows_model, message.model_name)
        self.signature = signature = self.front.signature(message.model_name, _version(message.model_version))
        call = decode_request(message, signature)
        self._call.message = b""  # its tensors are copies: it would be held twice
        if self.front.forwarding is not None:
            self.front.forwarding.apply(self._call.metadata, call)
        return call

    @property
    def deadline(self) -> float | None:
        return self._call.deadline

    def answer(self, response: InferResponse) -> None:
        message = encode_response(response, self.signature)
        self.stamp_answer()
        self._call.reply(message, trailers=self.answer_metadata(timeline=self._wants_timeline))
        self.close("OK")

    def fail(self, error: TrilithError, message: str) -> None:
        trailers = self.answer_metadata(timeline=False)
        self._call.fail(oip_grpc_status(error, compat=self.front.compat), message, trailers=trailers)

    def status_of(self, error: TrilithError) -> str:
        return oip_grpc_status(error, compat=self.front.compat).name

    def abandon(self) -> None:
        deadline, ticket = self._call.deadline, self.ticket
        if not self.over and deadline is not None and self.front.now() >= deadline:
            self.failure = DeadlineExceeded("the call's deadline passed")
            self.close(self.status_of(self.failure))
            self.ticket = ticket
        super().abandon()

    def close(self, status: str) -> None:
        self._call.on_cancel = None  # see `Exchange.close`
        super().close(status)


def _unimplemented(path: bytes) -> Unsupported:
    shown = path[:200].decode("latin-1")
    listed = service_messages().DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    if path.startswith(_SERVICE) and shown.removeprefix(_SERVICE.decode()) in listed:
        return Unsupported(f"{shown} is part of the protocol, but this server does not offer it")
    return Unsupported(f"there is no method {shown}")
