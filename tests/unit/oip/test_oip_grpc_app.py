"""The gRPC application: methods, answers, errors, cancellation; over fakes."""

import asyncio
import json

import pytest
from oip_fakes import FLOATS, FakeClock, FakeGrpcCall, FakeRuntime

from trilith.core.request import InferResponse
from trilith.errors import Cancelled, DeadlineExceeded, QueueFull, QueueTimeout
from trilith.runtime import ModelSpec
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import ModelEvent
from trilith.runtime.protocol import OipGrpc
from trilith.telemetry import Metrics, RequestMetrics, Sampler, TimelineShelf
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_options import ProtocolOptions

MESSAGES = service_messages()


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def app(runtime, metrics, clock):
    return OipGrpc(runtime, metrics=RequestMetrics(metrics), clock=clock)


def test_a_message_is_let_go_when_its_tensors_are_made(app, runtime):
    tensor = MESSAGES.ModelInferRequest.InferInputTensor(name="IN", datatype="FP32", shape=[1, 4])
    request = MESSAGES.ModelInferRequest(model_name="m", inputs=[tensor], raw_input_contents=[FLOATS.tobytes()])
    call = FakeGrpcCall(b"ModelInfer", request)
    app(call)
    assert len(runtime.submitted) == 1
    assert call.message == b""


def _ask(app, method, **fields):
    call = FakeGrpcCall(method.encode(), getattr(MESSAGES, f"{method}Request")(**fields))
    if (late := app(call)) is not None:
        asyncio.run(late)
    if call.status != "OK":
        return call
    return getattr(MESSAGES, f"{method}Response").FromString(call.answer)


def _infer(app, *, parameters=(), **options):
    message = MESSAGES.ModelInferRequest(model_name="m", raw_input_contents=[FLOATS.tobytes()])
    message.inputs.add(name="IN", datatype="FP32", shape=[1, 4])
    for name, value in parameters:
        message.parameters[name].int64_param = value
    call = FakeGrpcCall(b"ModelInfer", message, **options)
    app(call)
    return call


def _statuses(metrics):
    (snapshot,) = [found for found in metrics.collect() if found.name == "trilith_oip_requests_total"]
    return {labels[1:]: value for labels, value in snapshot.samples}


def test_server(app, runtime):
    assert _ask(app, "ServerLive").live
    assert _ask(app, "ServerReady").ready
    runtime.ready = False
    assert not _ask(app, "ServerReady").ready
    metadata = _ask(app, "ServerMetadata")
    assert metadata.name == "trilith"
    assert "binary_tensor_data" in metadata.extensions


def test_model(app):
    assert _ask(app, "ModelReady", name="m").ready
    assert not _ask(app, "ModelReady", name="unknown").ready
    metadata = _ask(app, "ModelMetadata", name="m", version="1")
    assert list(metadata.versions) == ["1", "2"]
    assert metadata.inputs[0].datatype == "FP32"
    assert list(metadata.inputs[0].shape) == [-1, 4]
    config = _ask(app, "ModelConfig", name="m").config
    assert config.max_batch_size == 8
    statistics = _ask(app, "ModelStatistics", name="m", version="1")
    assert statistics.model_stats[0].inference_stats.success.ns == 3_000_000_000
    assert statistics.model_stats[0].batch_stats[0].batch_size == 4
    assert len(_ask(app, "ModelStatistics").model_stats) == 1
    assert _ask(app, "RepositoryIndex", ready=True).models[0].state == "READY"
    assert _ask(app, "ModelMetadata", name="x").status == "NOT_FOUND"
    assert _ask(app, "ModelStatistics", name="x").status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (b"ModelStreamInfer", "is part of the protocol, but this server does not offer it"),
        (b"Nothing", "there is no method /inference.GRPCInferenceService/Nothing"),
        (b"/other.Service/Method", "there is no method /other.Service/Method"),
    ],
)
def test_unimplemented(app, metrics, path, text):
    call = FakeGrpcCall(path)
    app(call)
    assert call.status == "UNIMPLEMENTED"
    assert text in call.error
    assert _statuses(metrics) == {("other", "other", "UNIMPLEMENTED"): 1}


def test_no_protobuf(app):
    for method in (b"ModelMetadata", b"ModelInfer"):
        call = FakeGrpcCall(method, b"\xff\xff\xff")
        app(call)
        assert call.status == "INVALID_ARGUMENT"


def test_infer(app, runtime, metrics):
    call = _infer(app, metadata=[(b"trilith-timeline", b"1")])
    ((request, context, on_done, _),) = runtime.submitted
    assert request.inputs["IN"].tolist() == FLOATS.tolist()
    assert (context.request_id, context.deadline) == ("grpc-id", None)
    on_done(InferResponse(model="m", version="1", outputs={"OUT": FLOATS}))
    answer = MESSAGES.ModelInferResponse.FromString(call.answer)
    assert answer.raw_output_contents[0] == FLOATS.tobytes()
    stages = [stage for stage, _ in json.loads(call.trailers[b"trilith-timeline"])[2]]
    assert stages == ["received", "decoded", "encoded", "answered"]
    assert _statuses(metrics) == {("infer", "ModelInfer", "OK"): 1}


def test_a_timeline_that_is_too_long_for_metadata_is_kept(runtime):
    shelf = TimelineShelf()
    call = _infer(OipGrpc(runtime, timelines=shelf), metadata=[(b"trilith-timeline", b"1")])
    context = runtime.submitted[0][1]
    for number in range(400):
        context.timeline.child(f"model {number}", 1)
    runtime.submitted[0][2](InferResponse(model="m", version="1", outputs={"OUT": FLOATS}))
    ((name, path),) = call.trailers.items()
    assert name == b"trilith-timeline-at"
    assert json.loads(shelf.find(path.decode())) == context.timeline.to_builtins()


def test_the_repository_index_names_no_file_of_the_server(app, runtime):
    runtime.loaded["m"] = handle = ModelHandle(ModelSpec(name="m"), "1", [])
    handle.became(ModelEvent.FAILED, "/srv/models/m: wrong")
    call = FakeGrpcCall(b"RepositoryIndex")
    asyncio.run(app(call))
    (model,) = MESSAGES.RepositoryIndexResponse.FromString(call.answer).models
    assert (model.state, model.reason) == ("UNAVAILABLE", "m: wrong")


@pytest.mark.parametrize(
    ("deadline", "timeout", "expected"),
    [(None, None, (None, 0)), (3.0, None, (3.0, 0)), (None, 1_000_000, (None, 1_000_000)), (3.0, 5, (3.0, 5))],
)
def test_the_calls_deadline_and_the_time_it_may_wait(app, runtime, deadline, timeout, expected):
    _infer(app, deadline=deadline, parameters=[] if timeout is None else [("timeout", timeout)])
    request, context, _, _ = runtime.submitted[0]
    assert (context.deadline, request.timeout_us) == expected


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QueueFull("full"), "UNAVAILABLE"),
        (QueueTimeout("late"), "UNAVAILABLE"),
        (DeadlineExceeded("late"), "DEADLINE_EXCEEDED"),
        (Cancelled("gone"), "CANCELLED"),
    ],
)
def test_errors_of_the_runtime(app, runtime, error, status):
    call = _infer(app)
    runtime.submitted[0][2](error)
    assert (call.status, call.error) == (status, error.message)


@pytest.mark.parametrize("version", ["x", "-1", "1.0", "²"])
def test_a_version_that_is_no_number(app, version):
    text = f"failed to get model version from specified version string '{version}'"
    for method in ("ModelMetadata", "ModelReady", "ModelConfig", "ModelStatistics"):
        call = _ask(app, method, name="m", version=version)
        assert (call.status, text in call.error) == ("INVALID_ARGUMENT", True), method
    call = _ask(app, "ModelInfer", model_name="m", model_version=version)
    assert (call.status, text in call.error) == ("INVALID_ARGUMENT", True)


def test_an_unknown_model(app):
    call = FakeGrpcCall(b"ModelInfer", MESSAGES.ModelInferRequest(model_name="x"))
    app(call)
    assert call.status == "NOT_FOUND"
    assert "Request for unknown model: 'x' is not found" in call.error


@pytest.mark.parametrize(
    ("deadline", "now", "status"),
    [(None, 1.0, "CANCELLED"), (2.0, 1.9, "CANCELLED"), (2.0, 2.0, "DEADLINE_EXCEEDED")],
)
def test_a_caller_that_leaves(app, runtime, metrics, clock, deadline, now, status):
    call = _infer(app, deadline=deadline)
    clock.instant = now
    call.on_cancel()
    assert runtime.submitted[0][3].cancelled
    assert call.status is None
    assert _statuses(metrics) == {("infer", "ModelInfer", status): 1}


def test_a_bug_is_answered_and_counted_out(app, runtime, metrics, caplog, monkeypatch):
    monkeypatch.setattr(runtime.loaded["m"], "outputs", None)
    call = FakeGrpcCall(b"ModelMetadata", MESSAGES.ModelMetadataRequest(name="m"))
    app(call)
    assert call.status == "INTERNAL"
    assert "answering ModelMetadata failed" in caplog.text
    monkeypatch.undo()
    runtime.refuse = ZeroDivisionError("inside")
    call = _infer(app)
    assert (call.status, "inside" in call.error) == ("INTERNAL", False)
    assert "ZeroDivisionError: inside" in caplog.text
    (snapshot,) = [found for found in metrics.collect() if found.name == "trilith_oip_requests_in_flight"]
    assert {count for _, count in snapshot.samples} == {0}


@pytest.mark.parametrize(
    ("level", "accepts", "chosen"),
    [
        ("none", b"identity,deflate,gzip", None),
        ("low", b"identity,deflate,gzip", (b"gzip", 1)),
        ("medium", b"identity,gzip", (b"gzip", 6)),
        ("high", b"identity,deflate", (b"deflate", 9)),
        ("high", b"identity", None),
        ("high", b"identity,br", None),
    ],
)
def test_answers_are_compressed_for_clients_that_accept_it(runtime, level, accepts, chosen):
    app = OipGrpc(runtime, options=ProtocolOptions(grpc_compression=level))
    call = _infer(app, metadata=[(b"grpc-accept-encoding", accepts)])
    found = call.compression
    assert (None if found is None else (found.name, found.level)) == chosen
    call = FakeGrpcCall(b"ServerMetadata", metadata=[(b"grpc-accept-encoding", accepts)])
    app(call)
    assert call.compression is None


class Tracer:
    """Keeps what it is told."""

    def __init__(self):
        self.sampler, self.ends = Sampler(0.0), []

    def sample(self, traceparent, request_id, *, identity):
        return self.sampler.begin(traceparent, request_id)

    def ended(self, span, timeline, error):
        self.ends.append((span.name, span.parent_id, [stage for stage, _ in timeline.stamps], error))


def test_a_sampled_request_is_traced_to_its_end(runtime, clock):
    tracer = Tracer()
    app = OipGrpc(runtime, clock=clock, tracer=tracer)
    parent = [(b"traceparent", f"00-{'a' * 32}-{'b' * 16}-01".encode())]
    call = _infer(app, metadata=parent)
    assert tracer.ends == []
    runtime.submitted[-1][2](InferResponse(model="m", version="1", id="", outputs={"OUT": FLOATS}))
    assert call.status == "OK"
    assert call.trailers[b"traceresponse"].startswith(b"00-" + b"a" * 32)
    [(name, of, stages, error)] = tracer.ends
    assert (name, of, error) == ("m.infer", "b" * 16, None)
    assert (stages[0], stages[-1]) == ("received", "answered")

    refused = FakeGrpcCall(b"ModelInfer", MESSAGES.ModelInferRequest(model_name="nope"), metadata=parent)
    app(refused)
    assert b"traceresponse" in refused.trailers
    assert (tracer.ends[1][0], tracer.ends[1][3].code) == ("infer", "unknown_model")
    gone = _infer(app, metadata=parent)
    gone.on_cancel()
    assert type(tracer.ends[2][3]) is Cancelled
    call = _infer(app)
    runtime.submitted[-1][2](InferResponse(model="m", version="1", id="", outputs={"OUT": FLOATS}))
    assert (len(tracer.ends), call.trailers) == (3, {})


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize("method", ["ServerReady", "ModelInfer", "RepositoryIndex", "None"])
def test_calls_while_the_server_stops(runtime, compat, method):
    app = OipGrpc(runtime, options=ProtocolOptions(compat=compat))
    app.exiting = True
    call = FakeGrpcCall(method.encode())
    if (late := app(call)) is not None:
        asyncio.run(late)
    refused = "GRPC server is shutting down and has stopped accepting new requests."
    assert ((call.status, call.error) == ("UNAVAILABLE", refused)) is compat
