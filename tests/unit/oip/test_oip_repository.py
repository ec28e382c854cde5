"""The model repository extension over both protocols, with a repository that only notes what it is asked."""

import asyncio
import base64
import json

import pytest
from oip_fakes import FakeGrpcCall, FakeHttpRequest, FakeRuntime

from trilith.errors import CapacityError, NotFound, SetupError
from trilith.runtime.protocol import OipGrpc, OipHttp
from trilith.runtime.protocol.routes import route_of
from trilith.wire.oip_messages import service_messages

MESSAGES = service_messages()


@pytest.fixture
def runtime():
    return FakeRuntime()


def post(runtime, path, body=b""):
    request = FakeHttpRequest("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())
    asyncio.run(OipHttp(runtime)(request))
    return request


def call(runtime, method, **fields):
    sent = FakeGrpcCall(method.encode(), getattr(MESSAGES, f"{method}Request")(**fields))
    asyncio.run(OipGrpc(runtime)(sent))
    return sent


def parameters(**values):
    return {key: MESSAGES.ModelRepositoryParameter(**value) for key, value in values.items()}


def test_routes():
    route = route_of("/v2/repository/models/a%2Fb/load")
    assert (route.endpoint, route.method, route.model, route.repository) == ("repository_load", "POST", "a/b", "")
    assert route_of("/v2/repository/r/models/m/unload").repository == "r"
    assert route_of("/v2/repository/r/index").repository == "r"
    for path in (
        "/v2/repository",
        "/v2/repository/models/m",
        "/v2/repository/models/m/stop",
        "/v2/repository/a/b/index",
    ):
        with pytest.raises(NotFound):
            route_of(path)


def test_load_and_unload_over_http(runtime):
    files = {"config": "{}", "file:1/model.onnx": base64.b64encode(b"\0\1").decode()}
    assert post(runtime, "/v2/repository/models/m/load").status == 200
    assert post(runtime, "/v2/repository/models/m/load", {"parameters": files}).answer == b"{}"
    assert post(runtime, "/v2/repository/models/m/unload", {"parameters": {"unload_dependents": True}}).status == 200
    assert runtime.repository.asked == [
        ("load", "m", {}),
        ("load", "m", {"config": "{}", "file:1/model.onnx": b"\0\1"}),
        ("unload", "m", True),
    ]


def test_load_and_unload_over_grpc(runtime):
    sent = {"config": {"string_param": "{}"}, "file:1/model.onnx": {"bytes_param": b"\0\1"}}
    assert call(runtime, "RepositoryModelLoad", model_name="m", parameters=parameters(**sent)).status == "OK"
    assert call(runtime, "RepositoryModelUnload", model_name="m").status == "OK"
    dependents = parameters(unload_dependents={"bool_param": True})
    assert call(runtime, "RepositoryModelUnload", model_name="m", parameters=dependents).status == "OK"
    assert runtime.repository.asked == [
        ("load", "m", {"config": "{}", "file:1/model.onnx": b"\0\1"}),
        ("unload", "m", False),
        ("unload", "m", True),
    ]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("load", {"parameters": []}, "Invalid value for 'parameters'"),
        ("load", {"parameters": {"config": {}}}, "attempt to access JSON non-string as string"),
        ("load", {"parameters": {"file:1/x": "?"}}, "'file:1/x' must be a file's content in base64"),
        ("load", [], "expected a JSON object"),
        ("load", b"{", "JSON"),
        (
            "unload",
            {"parameters": {"unload_dependents": 1}},
            "Invalid value for 'unload_dependents'",
        ),
    ],
)
def test_bodies_that_are_refused(runtime, path, body, says):
    request = post(runtime, f"/v2/repository/models/m/{path}", body)
    assert (request.status, runtime.repository.asked) == (400, [])
    assert says in json.loads(request.answer)["error"]


def test_parameters_of_the_wrong_type_over_grpc(runtime):
    for method, sent, says in [
        ("RepositoryModelLoad", {"config": {"bytes_param": b"{}"}}, "load parameter 'config', expected string_param."),
        ("RepositoryModelLoad", {"file:1/x": {"string_param": ""}}, "load parameter 'file:1/x', expected bytes_param."),
        ("RepositoryModelUnload", {"unload_dependents": {"int64_param": 1}}, "'unload_dependents' parameter, expected"),
    ]:
        answer = call(runtime, method, model_name="m", parameters=parameters(**sent))
        assert answer.status == "INVALID_ARGUMENT"
        assert says in answer.error


def test_naming_a_repository_is_refused(runtime):
    for path in ("r/index", "r/models/m/load", "r/models/m/unload"):
        request = post(runtime, f"/v2/repository/{path}")
        assert request.status == 501
        assert "'repository_name' specification is not supported" in json.loads(request.answer)["error"]
    assert call(runtime, "RepositoryIndex", repository_name="r").status == "UNIMPLEMENTED"
    for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
        assert call(runtime, method, repository_name="r", model_name="m").status == "UNIMPLEMENTED"


@pytest.mark.parametrize(
    ("error", "http", "grpc"),
    [(CapacityError("not allowed"), 503, "UNAVAILABLE"), (SetupError("load failed"), 500, "INTERNAL")],
)
def test_what_the_repository_refuses(runtime, error, http, grpc):
    runtime.repository.refuse = error
    assert post(runtime, "/v2/repository/models/m/load").status == http
    assert call(runtime, "RepositoryModelUnload", model_name="m").status == grpc


def test_a_bug_of_ours_is_answered(runtime, caplog):
    runtime.repository.refuse = ValueError("ours")
    assert post(runtime, "/v2/repository/models/m/load").status == 500
    assert call(runtime, "RepositoryModelLoad", model_name="m").status == "INTERNAL"
    assert caplog.text.count("ValueError: ours") == 2
