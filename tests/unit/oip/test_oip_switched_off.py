"""Extensions that are not offered: Triton's words, over both protocols; none is listed. And a server that stops."""

import asyncio
import json

import pytest
from oip_fakes import FakeGrpcCall, FakeHttpRequest, FakeRuntime

from trilith.runtime.protocol import OipGrpc, OipHttp
from trilith.runtime.protocol.describe import EXTENSIONS
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_options import ProtocolOptions

SHARED_MEMORY = (
    "Client shared memory is disabled. This server reads tensors from requests only: send their data in the request"
)
TRITONS = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."
COMPAT = ProtocolOptions(compat=True)
DEFAULT = ProtocolOptions()


def http(method, path, options=DEFAULT, body=b""):
    request = FakeHttpRequest(method, path, body)
    pending = OipHttp(FakeRuntime(), options=options)(request)
    if pending is not None:
        asyncio.run(pending)
    return request.status, json.loads(request.answer)


def grpc(method, options=DEFAULT, **fields):
    message = getattr(service_messages(), f"{method}Request")(**fields)
    call = FakeGrpcCall(method.encode(), message)
    OipGrpc(FakeRuntime(), options=options)(call)
    return call


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/v2/trace/setting", "the server does not support tracing"),
        ("POST", "/v2/trace/setting", "the server does not support tracing"),
        ("GET", "/v2/models/m/trace/setting", "the server does not support tracing"),
        ("POST", "/v2/models/m/versions/1/trace/setting", "the server does not support tracing"),
        ("GET", "/v2/logging", "the server does not support dynamic logging"),
        ("POST", "/v2/logging", "the server does not support dynamic logging"),
        ("POST", "/v2/systemsharedmemory/region/r/register", SHARED_MEMORY),
        ("POST", "/v2/systemsharedmemory/region/r/unregister", SHARED_MEMORY),
        ("POST", "/v2/cudasharedmemory/unregister", SHARED_MEMORY),
    ],
)
def test_http(method, path, words):
    status, answer = http(method, path)
    assert (status, answer["error"], answer["code"]) == (501, words, "unsupported")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("TraceSetting", "the server does not support trace"),
        ("LogSettings", "the server does not support dynamic logging"),
        ("SystemSharedMemoryRegister", SHARED_MEMORY),
        ("SystemSharedMemoryUnregister", SHARED_MEMORY),
        ("CudaSharedMemoryRegister", SHARED_MEMORY),
        ("CudaSharedMemoryUnregister", SHARED_MEMORY),
    ],
)
def test_grpc(method, words):
    call = grpc(method)
    assert (call.status, call.error) == ("UNIMPLEMENTED", words)


def test_compat_names_the_option_that_triton_has():
    assert http("POST", "/v2/systemsharedmemory/region/r/register", COMPAT)[1]["error"] == TRITONS
    assert grpc("CudaSharedMemoryRegister", COMPAT).error == TRITONS
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1, 4], "parameters": {"shared_memory_region": "r"}}
    body = json.dumps({"inputs": [tensor]}).encode()
    for options, words in ((DEFAULT, SHARED_MEMORY), (COMPAT, TRITONS)):
        status, answer = http("POST", "/v2/models/m/infer", options, body)
        assert (status, answer["error"]) == (501, f"{words} (input 'IN')")
    tensor["parameters"] = {"shared_memory_region": {"string_param": "r"}}
    call = grpc("ModelInfer", COMPAT, model_name="m", inputs=[tensor])
    assert (call.status, call.error) == ("UNIMPLEMENTED", f"{TRITONS} (input 'IN')")


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_there_is_no_shared_memory(kind):
    assert http("GET", f"/v2/{kind}sharedmemory/status") == (200, [])
    status, answer = http("GET", f"/v2/{kind}sharedmemory/region/r/status")
    assert (status, answer["error"]) == (404, "Unable to find shared memory region: 'r'")
    method = f"{kind.capitalize()}SharedMemoryStatus"
    assert grpc(method).answer == b""
    call = grpc(method, name="r")
    assert (call.status, call.error) == ("NOT_FOUND", "Unable to find shared memory region: 'r'")


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/v2/logging"), ("GET", "/v2/cudasharedmemory/region/r/register")]
)
def test_a_wrong_verb(method, path):
    status, answer = http(method, path)
    assert status == 405
    assert "Method Not Allowed" in answer["error"]


def test_they_are_not_listed():
    assert not {"trace", "logging", "system_shared_memory", "cuda_shared_memory", "sequence"} & set(EXTENSIONS)


@pytest.mark.parametrize(
    ("compat", "expected"),
    [
        (False, {"live": (200, b'{"live":true}'), "ready": (503, b'{"ready":false}')}),
        (True, {"live": (503, b""), "ready": (503, b"")}),
    ],
)
def test_a_server_that_stops_is_not_ready(compat, expected):
    app = OipHttp(FakeRuntime(), options=ProtocolOptions(compat=compat))
    app.exiting = True
    for endpoint, answer in expected.items():
        request = FakeHttpRequest("GET", f"/v2/health/{endpoint}")
        app(request)
        assert (request.status, request.answer) == answer
    rpc = OipGrpc(FakeRuntime())
    rpc.exiting = True
    call = FakeGrpcCall(b"ServerReady")
    rpc(call)
    assert not service_messages().ServerReadyResponse.FromString(call.answer).ready
    call = FakeGrpcCall(b"ServerLive")
    rpc(call)
    assert service_messages().ServerLiveResponse.FromString(call.answer).live
