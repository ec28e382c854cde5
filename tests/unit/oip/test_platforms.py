"""The paths of SageMaker and Vertex AI, as names of the protocol's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oip_fakes import FakeHttpRequest

from trilith.cli.serve import serve
from trilith.errors import InvalidConfig, InvalidInput, NotFound
from trilith.orchestration.engine.platform_door import PlatformDoor
from trilith.wire.oip_status import says_no_room
from trilith.wire.platforms import check_apart, json_size, predict_target, sagemaker_routes, vertex_routes

AIP = {"AIP_HEALTH_ROUTE": "/ok", "AIP_PREDICT_ROUTE": "/ask"}
SAGEMAKER = sagemaker_routes({}, 8080)
VERTEX = vertex_routes(AIP, 8080)
LENGTH = b"inference-header-content-length"


def passed(platform, method, path, headers=(), models=("m",)):
    seen = []
    request = FakeHttpRequest(method, path, headers=headers)
    request.respond_error = seen.append
    PlatformDoor(seen.append, [platform], lambda: models)(request)
    (found,) = seen
    if found is not request:
        raise found
    return request


@pytest.mark.parametrize(
    ("platform", "path", "leads_to"),
    [
        (SAGEMAKER, "/ping", "/v2/health/ready"),
        (sagemaker_routes({"SAGEMAKER_TRITON_PING_MODE": "live"}, 0), "/ping", "/v2/health/live"),
        (SAGEMAKER, "/invocations", "/v2/models/m/infer"),
        (
            sagemaker_routes({"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "a b/c"}, 0),
            "/invocations",
            "/v2/models/a%20b%2Fc/infer",
        ),
        (VERTEX, "/ok", "/v2/health/ready"),
        (VERTEX, "/ask", "/v2/models/m/infer"),
        (vertex_routes(AIP, 0, "n"), "/ask", "/v2/models/n/infer"),
        (VERTEX, "/ping", "/ping"),
        (VERTEX, "/v2/models/m/infer", "/v2/models/m/infer"),
    ],
)
def test_a_path_is_another_name(platform, path, leads_to):
    assert passed(platform, "POST", path).path == leads_to


@pytest.mark.parametrize("models", [(), ("a", "b"), ("a", "b", "b")])
def test_several_models_need_a_name(models):
    with pytest.raises(InvalidInput, match=f"there are {len(set(models))}: "):
        passed(SAGEMAKER, "POST", "/invocations", models=models)
    assert passed(SAGEMAKER, "POST", "/invocations", models=("a", "a")).path == "/v2/models/a/infer"


@pytest.mark.parametrize("said", [b"v2/models/x/infer", b"/v2/models/x/infer", b" //v2/models/x/infer"])
def test_a_redirect_leads_to_the_protocol(said):
    headers = [(b"x-vertex-ai-triton-redirect", said)]
    assert passed(VERTEX, "POST", "/ask", headers).path == "/v2/models/x/infer"
    assert passed(SAGEMAKER, "POST", "/invocations", headers).path == "/v2/models/m/infer"


@given(st.binary(max_size=30))
def test_and_nowhere_else(said):
    try:
        path = predict_target(VERTEX, said, ["m"])
    except NotFound:
        return
    assert path == "/v2" or path.startswith("/v2/")
    assert path.isascii()
    assert path.isprintable()


@pytest.mark.parametrize(
    "said", [b"", b"metrics", b"v2x", b"v2/../metrics?x", b"v2/models/m#a", b"v2/a\nb", b"v2/\xff"]
)
def test_examples_of_that(said):
    with pytest.raises(NotFound, match="must name a path below v2/"):
        predict_target(VERTEX, said, ["m"])


def test_the_content_type_says_how_long_the_json_is():
    form = SAGEMAKER.binary_form.encode()
    headers = [(b"content-type", form + b"12"), (LENGTH, b"99"), (b"a", b"b")]
    request = passed(SAGEMAKER, "POST", "/invocations", headers)
    assert request.headers == [headers[0], headers[2], (LENGTH, b"12")]
    assert request.binary_form == form
    assert passed(SAGEMAKER, "POST", "/invocations", [(b"content-type", b"application/json")]).headers[1:] == []
    assert json_size(SAGEMAKER, form.replace(b";", b"; ") + b"7") == b"7"
    for wrong in (b"", b"x", b"-1", b"1" * 19, b"\xb2"):
        assert json_size(SAGEMAKER, form + wrong) is None


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"SAGEMAKER_TRITON_PING_MODE": "dead"}, "must be ready or live, got 'dead'"),
        ({"SAGEMAKER_BIND_TO_PORT": "9000"}, "say --http-port 9000"),
    ],
)
def test_what_sagemaker_cannot_ask_for(environment, says):
    with pytest.raises(InvalidConfig) as caught:
        sagemaker_routes(environment, 8080)
    assert caught.value.message.startswith("--allow-sagemaker: ")
    assert says in caught.value.message
    sagemaker_routes({"SAGEMAKER_BIND_TO_PORT": "8080"}, 8080)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "AIP_HEALTH_ROUTE must be a path"),
        ({**AIP, "AIP_PREDICT_ROUTE": "ask"}, "AIP_PREDICT_ROUTE must be a path"),
        ({**AIP, "AIP_PREDICT_ROUTE": "/v2/models/m/infer"}, "that is not below /v2"),
        ({**AIP, "AIP_PREDICT_ROUTE": "/ok"}, "must differ"),
        ({**AIP, "AIP_HTTP_PORT": "9000"}, "say --http-port 9000"),
    ],
)
def test_what_vertex_ai_must_say(environment, says):
    with pytest.raises(InvalidConfig) as caught:
        vertex_routes(environment, 8080)
    assert caught.value.message.startswith("--allow-vertex-ai: ")
    assert says in caught.value.message


def test_two_that_ask_by_one_path_are_refused():
    with pytest.raises(InvalidConfig, match="--allow-sagemaker and --allow-vertex-ai both ask for '/ping'"):
        check_apart([SAGEMAKER, vertex_routes({**AIP, "AIP_HEALTH_ROUTE": "/ping"}, 0)])
    check_apart([SAGEMAKER, VERTEX])
    many = sagemaker_routes({"SAGEMAKER_MULTI_MODEL": "true"}, 0)
    with pytest.raises(InvalidConfig, match="both ask for '/models'"):
        check_apart([many, vertex_routes({**AIP, "AIP_PREDICT_ROUTE": "/models"}, 0)])


def test_the_command_line(tmp_path):
    with pytest.raises(InvalidConfig, match="--vertex-ai-default-model needs --allow-vertex-ai"):
        serve(tmp_path, vertex_ai_default_model="m")
    with pytest.raises(InvalidConfig, match="--allow-sagemaker is for folders of models"):
        serve("app:A", allow_sagemaker=True)


@pytest.mark.parametrize(
    ("text", "no_room"),
    [
        ("std::bad_alloc: Cannot allocate memory", True),
        ("CUDA error: out of memory", True),
        ("[Errno 28] No space left on device: '/models/x'", True),
        ("nothing is at /models/OOM", False),
        ("the model 'Out of memory' is not a folder", False),
    ],
)
def test_only_what_a_library_says_tells_of_no_room(text, no_room):
    assert says_no_room(text) is no_room
