"""What passes through to a model written for Triton's Python backend, and back: parameters, headers, its own errors."""

import http.client
import json

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from oip_server import OipServer
from tritonclient.utils import InferenceServerException

from trilith.wire.oip_options import ProtocolOptions

MODEL = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        text = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy().ravel()[0].decode()
        if text in dir(pb_utils.TritonError):
            error = pb_utils.TritonError("own words", getattr(pb_utils.TritonError, text))
            return pb_utils.InferenceResponse(error=error)
        given = json.loads(request.parameters())
        told = {"parameters": given, "timeout": request.timeout(), "id": request.request_id()}
        output = pb_utils.Tensor("OUTPUT0", np.array([json.dumps(told).encode()], np.object_))
        return pb_utils.InferenceResponse([output], parameters={"text": "a", "number": 7, "truth": True})
"""
CONFIG = """
backend: "python"
max_batch_size: 0
input { name: "INPUT0" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_STRING dims: [ 1 ] }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    (root / "told" / "1").mkdir(parents=True)
    (root / "told" / "config.pbtxt").write_text(CONFIG)
    (root / "told" / "1" / "model.py").write_text(MODEL)
    options = ProtocolOptions(http_header_forward_pattern="^x-my", grpc_header_forward_pattern="^x-my")
    with OipServer().running(root, options) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    module = getattr(tritonclient, request.param)
    with module.InferenceServerClient(getattr(server, request.param)) as client:
        yield client


def ask(client, text, **options):
    module = tritonclient.http if isinstance(client, tritonclient.http.InferenceServerClient) else tritonclient.grpc
    tensor = module.InferInput("INPUT0", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode()], np.object_))
    return client.infer("told", [tensor], **options)


def test_parameters_and_headers_reach_the_model(client):
    given = {"own": 1, "flag": False, "text": "grüße"}
    result = ask(
        client,
        "hi",
        request_id="mine",
        timeout=30_000_000,
        parameters=given,
        headers={"x-my-user": "eve", "other": "not"},
    )
    told = json.loads(result.as_numpy("OUTPUT0")[0])
    assert told == {"parameters": {**given, "x-my-user": "eve"}, "timeout": 30_000_000, "id": "mine"}


def test_parameters_of_the_answer_reach_the_client(client):
    answer = ask(client, "hi").get_response()
    if isinstance(answer, dict):
        assert answer["parameters"] == {"text": "a", "number": 7, "truth": True}
    else:
        found = answer.parameters
        assert (found["text"].string_param, found["number"].int64_param, found["truth"].bool_param) == ("a", 7, True)


@pytest.mark.parametrize(
    ("code", "status", "grpc_status"),
    [
        ("UNKNOWN", "500", "UNKNOWN"),
        ("INTERNAL", "500", "INTERNAL"),
        ("NOT_FOUND", "404", "NOT_FOUND"),
        ("INVALID_ARG", "400", "INVALID_ARGUMENT"),
        ("UNAVAILABLE", "503", "UNAVAILABLE"),
        ("UNSUPPORTED", "501", "UNIMPLEMENTED"),
        ("ALREADY_EXISTS", "400", "ALREADY_EXISTS"),
        ("CANCELLED", "499", "CANCELLED"),
    ],
)
def test_what_a_model_says_of_itself_is_left_as_it_is(client, code, status, grpc_status):
    with pytest.raises(InferenceServerException) as raised:
        ask(client, code, request_id="mine")
    assert raised.value.message() == "own words"
    assert raised.value.status() in (status, f"StatusCode.{grpc_status}")


def test_generate_tells_the_parameters_of_the_answer(server):
    connection = http.client.HTTPConnection(server.http, timeout=20)
    connection.request("POST", "/v2/models/told/generate", json.dumps({"INPUT0": "hi", "own": 2.5}))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert (answer["text"], answer["number"], answer["truth"]) == ("a", 7, True)
    assert json.loads(answer["OUTPUT0"])["parameters"] == {"own": 2.5}
