"""Restricted endpoints and forwarded headers, over both protocols."""

import asyncio
import json

import pytest
from oip_fakes import FakeGrpcCall, FakeHttpRequest, FakeRuntime

from trilith.errors import InvalidConfig
from trilith.runtime.protocol import OipGrpc, OipHttp
from trilith.runtime.protocol.access import group_of
from trilith.runtime.protocol.routes import route_of
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_options import GROUPS, ProtocolOptions, checked_pattern, checked_restrictions

PATHS = {
    "health": ["/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"],
    "metadata": ["/v2", "/v2/models/m"],
    "inference": ["/v2/models/m/infer", "/v2/models/m/generate", "/v2/models/m/generate_stream"],
    "shared-memory": ["/v2/systemsharedmemory/status", "/v2/cudasharedmemory/region/r/register"],
    "model-config": ["/v2/models/m/config"],
    "model-repository": ["/v2/repository/index"],
    "statistics": ["/v2/models/stats", "/v2/models/m/stats"],
    "trace": ["/v2/trace/setting", "/v2/models/m/trace/setting"],
    "logging": ["/v2/logging"],
}
METHODS = {
    "health": ["ServerLive", "ServerReady", "ModelReady"],
    "metadata": ["ServerMetadata", "ModelMetadata"],
    "inference": ["ModelInfer"],
    "shared-memory": ["SystemSharedMemoryStatus", "CudaSharedMemoryRegister"],
    "model-config": ["ModelConfig"],
    "model-repository": ["RepositoryIndex"],
    "statistics": ["ModelStatistics"],
    "trace": ["TraceSetting"],
    "logging": ["LogSettings"],
}
BODY = json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}).encode()


def options(**settings):
    return ProtocolOptions(
        http_restricted=checked_restrictions(settings.pop("http", ()), "--http-restricted-api"),
        grpc_restricted=checked_restrictions(settings.pop("grpc", ()), "--grpc-restricted-protocol"),
        **settings,
    )


def over_http(app, path, body=b"", **headers):
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = FakeHttpRequest(route_of(path).method.split(", ")[0], path, body, headers=fields)
    pending = app(request)
    if pending is not None:
        asyncio.run(pending)
    return request


def over_grpc(app, method, message=None, metadata=()):
    call = FakeGrpcCall(
        method.encode(), message or getattr(service_messages(), f"{method}Request")(), metadata=metadata
    )
    if (pending := app(call)) is not None:
        asyncio.run(pending)
    return call


@pytest.mark.parametrize("group", GROUPS)
def test_a_restricted_group_is_closed_and_no_other(group):
    http = OipHttp(FakeRuntime(), options=options(http=(f"{group}:Admin-Key=secret",)))
    grpc = OipGrpc(FakeRuntime(), options=options(grpc=(f"{group}:admin-key=secret",)))
    for other, paths in PATHS.items():
        for path in paths:
            request = over_http(http, path)
            assert (request.status == 403) == (other == group), path
    for other, methods in METHODS.items():
        for method in methods:
            call = over_grpc(grpc, method)
            assert (call.status == "PERMISSION_DENIED") == (other == group), method
    path, method = PATHS[group][0], METHODS[group][0]
    assert over_http(http, path, admin_key="secret").status != 403
    assert over_http(http, path, admin_key="wrong").status == 403
    assert json.loads(over_http(http, path).answer)["error"] == ("This API is restricted, expecting header 'admin-key'")
    assert over_grpc(grpc, method, metadata=[(b"admin-key", b"secret")]).error == (
        "This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'"
    )
    opened = over_grpc(grpc, method, metadata=[(b"triton-grpc-protocol-admin-key", b"secret")])
    assert opened.status != "PERMISSION_DENIED"


def test_compat_answers_unavailable():
    grpc = OipGrpc(FakeRuntime(), options=options(grpc=("health:k=v",), compat=True))
    assert over_grpc(grpc, "ServerLive").status == "UNAVAILABLE"


def test_what_is_refused_is_not_read():
    app = OipHttp(FakeRuntime(), options=options(http=("inference:k=v",)))
    request = FakeHttpRequest("POST", "/v2/models/m/infer", BODY, late=True)
    assert app(request) is None
    assert request.status == 403


def test_every_group_has_its_endpoints():
    assert {group_of(route_of(path).endpoint) for paths in PATHS.values() for path in paths} == set(GROUPS)
    listed = service_messages().DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    assert {group_of(name) for name in listed} == set(GROUPS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("health", "expected GROUP"),
        ("health:key", "expected GROUP"),
        ("health:=value", "expected GROUP"),
        ("health:key=", "expected GROUP"),
        ("nothing:key=value", "unknown group 'nothing'"),
        ("health,:key=value", "unknown group ''"),
    ],
)
def test_malformed_restrictions(text, why):
    with pytest.raises(InvalidConfig, match=f"--http-restricted-api: {why}"):
        checked_restrictions((text,), "--http-restricted-api")


def test_a_group_has_one_header():
    with pytest.raises(InvalidConfig, match="'health' is restricted twice"):
        checked_restrictions(("health:a=b", "trace,health:c=d"), "--http-restricted-api")


@pytest.mark.parametrize("method", ["ModelInfer", "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"])
def test_a_call_asks_only_models_that_it_may(method):
    runtime = FakeRuntime()
    app = OipGrpc(runtime, options=options())
    field = "model_name" if method == "ModelInfer" else "name"
    for name, allowed in (("m", {"m"}), ("m", set()), ("", {"m"})):
        message = getattr(service_messages(), f"{method}Request")(**{field: name})
        call = FakeGrpcCall(method.encode(), message)
        call.allows_model = allowed.__contains__
        if (pending := app(call)) is not None:
            asyncio.run(pending)
        assert (call.status == "PERMISSION_DENIED") == (name not in allowed), (method, name)
    assert len(runtime.submitted) == (method == "ModelInfer")


def test_headers_are_forwarded():
    runtime = FakeRuntime()
    app = OipHttp(runtime, options=options(http_header_forward_pattern="^X-My"))
    body = json.dumps({**json.loads(BODY), "parameters": {"x-my-user": "forged", "own": 1}}).encode()
    over_http(app, "/v2/models/m/infer", body, x_my_user="eve", accept="x")
    assert runtime.submitted[0][0].parameters == {"x-my-user": "eve", "own": 1}
    app = OipGrpc(runtime, options=options(grpc_header_forward_pattern="my"))
    message = service_messages().ModelInferRequest(model_name="m")
    over_grpc(app, "ModelInfer", message, metadata=[(b"my-key", b"\xc3\xa9"), (b"other", b"1")])
    assert runtime.submitted[1][0].parameters == {"my-key": "é"}


@pytest.mark.parametrize("name", ["priority", "timeout", "sequence_id", "triton_anything"])
def test_a_header_with_a_reserved_name_is_refused(name):
    app = OipHttp(FakeRuntime(), options=options(http_header_forward_pattern=".*"))
    request = FakeHttpRequest("POST", "/v2/models/m/infer", BODY, headers=[(name.encode(), b"1")])
    app(request)
    assert request.status == 400
    assert f"the header '{name}' would be forwarded" in json.loads(request.answer)["error"]


@pytest.mark.parametrize(("pattern", "forwarded"), [("MY_.*", 1), ("(?-i)MY_.*", 0), ("(?-i)my_.*", 1)])
def test_the_case_of_a_pattern(pattern, forwarded):
    runtime = FakeRuntime()
    app = OipHttp(runtime, options=options(http_header_forward_pattern=checked_pattern(pattern, "--option")))
    app(FakeHttpRequest("POST", "/v2/models/m/infer", BODY, headers=[(b"my_header", b"1")]))
    assert len(runtime.submitted[0][0].parameters) == forwarded


def test_a_malformed_pattern():
    assert checked_pattern("^a", "--http-header-forward-pattern") == "^a"
    with pytest.raises(InvalidConfig, match="--http-header-forward-pattern: expected a regular expression"):
        checked_pattern("(", "--http-header-forward-pattern")
