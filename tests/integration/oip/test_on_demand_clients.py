"""Clients of models that are loaded on demand: every way of asking for one."""

import json
import urllib.request

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from oip_server import OipServer, write_models
from tritonclient.utils import InferenceServerException


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    (folder / "junk" / "1").mkdir(parents=True)
    (folder / "junk" / "1" / "model.onnx").write_bytes(b"junk")
    return folder


@pytest.fixture
def lazy(root):
    with OipServer().running(root, on_demand=True, max_loaded_models=2) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request, lazy):
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[request.param]
    with module.InferenceServerClient(getattr(lazy, request.param)) as made:
        yield made


def infer(client, model, array, name="INPUT0"):
    module = tritonclient.http if isinstance(client, tritonclient.http.InferenceServerClient) else tritonclient.grpc
    tensor = module.InferInput(name, list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return client.infer(model, [tensor])


def test_a_request_loads_its_model(client):
    assert client.is_server_ready()
    assert client.is_model_ready("identity_fp32")  # it takes requests
    assert not client.is_model_ready("nope")
    row = np.array([1, 2], np.float32)
    assert infer(client, "identity_fp32", row).as_numpy("OUTPUT0").tolist() == [1, 2]
    assert infer(client, "batched", np.ones((1, 4), np.float32)).as_numpy("OUTPUT0").shape == (1, 4)
    assert infer(client, "slow", row).as_numpy("OUTPUT0").tolist() == [1, 2]
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'nope' is not found"):
        infer(client, "nope", row)


def test_what_describes_a_model_loads_it(client):
    found = client.get_model_metadata("affine")
    assert (found["name"] if isinstance(found, dict) else found.name) == "affine"
    found = client.get_model_config("identity_int32")
    assert (found["name"] if isinstance(found, dict) else found.config.name) == "identity_int32"
    with pytest.raises(InferenceServerException, match="'nope' is not found"):
        client.get_model_metadata("nope")


def test_a_model_that_cannot_be_loaded_says_why(client, root):
    for ask in (client.get_model_metadata, lambda name: infer(client, name, np.zeros(1, np.float32))):
        with pytest.raises(InferenceServerException, match="'junk' is not at ready state: load failed for") as refused:
            ask("junk")
        assert str(root) not in refused.value.message()
    assert not client.is_model_ready("junk")


def test_a_body_in_pieces_and_health_over_grpc(lazy):
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [3]}]}).encode()
    sent = urllib.request.Request(
        f"http://{lazy.http}/v2/models/identity_fp32/infer", iter([body[:9], body[9:]]), method="POST"
    )
    with urllib.request.urlopen(sent) as answer:
        assert json.loads(answer.read())["outputs"][0]["data"] == [3.0]
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(lazy.grpc) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        assert check(health_pb2.HealthCheckRequest(service="slower")).status == health_pb2.HealthCheckResponse.SERVING
