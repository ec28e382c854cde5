"""Model control with `tritonclient`, over HTTP and gRPC, against a whole server."""

import json
import re

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from oip_server import OipServer, write_models
from tritonclient.utils import InferenceServerException

from trilith.runtime import ControlMode
from trilith.wire.oip_options import ProtocolOptions


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture(scope="module")
def controlled(root):
    with OipServer().running(root, mode=ControlMode.EXPLICIT, load_at_start=("slow",)) as running:
        yield running


@pytest.fixture(params=["http", "grpc"])
def client(request, controlled):
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[request.param]
    with module.InferenceServerClient(getattr(controlled, request.param)) as made:
        yield made


def index(client):
    found = client.get_model_repository_index()
    entries = (
        found
        if isinstance(found, list)
        else [
            {"name": model.name, "version": model.version, "state": model.state, "reason": model.reason}
            for model in found.models
        ]
    )
    return {entry["name"]: (entry.get("state", ""), entry.get("reason", "")) for entry in entries}


def infer(client, model, array, name="INPUT0"):
    module = tritonclient.http if isinstance(client, tritonclient.http.InferenceServerClient) else tritonclient.grpc
    tensor = module.InferInput(name, list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return client.infer(model, [tensor])


def test_load_and_unload(client):
    assert index(client)["slow"] == ("READY", "")
    assert index(client)["identity_fp32"] in {("", ""), ("UNAVAILABLE", "unloaded")}
    assert not client.is_model_ready("identity_fp32")
    client.load_model("identity_fp32")
    assert client.is_model_ready("identity_fp32")
    assert client.is_model_ready("identity_fp32", "1")
    assert not client.is_model_ready("identity_fp32", "2")
    row = np.array([1, 2], np.float32)
    assert infer(client, "identity_fp32", row).as_numpy("OUTPUT0").tolist() == [1, 2]
    client.unload_model("identity_fp32", unload_dependents=True)
    assert not client.is_model_ready("identity_fp32")
    assert index(client)["identity_fp32"] == ("UNAVAILABLE", "unloaded")
    with pytest.raises(InferenceServerException, match="model: 'identity_fp32' has no available versions"):
        infer(client, "identity_fp32", row)
    assert client.is_server_ready()


def test_override(client, root):
    config = {"backend": "onnxruntime", "max_batch_size": 2}
    model = (root / "affine" / "1" / "model.onnx").read_bytes()
    client.load_model("affine", config=json.dumps(config), files={"file:5/model.onnx": model})
    assert client.is_model_ready("affine", "5")
    assert not client.is_model_ready("affine", "1")
    found = client.get_model_config("affine")
    assert (found["max_batch_size"] if isinstance(found, dict) else found.config.max_batch_size) == 2
    client.load_model("affine", config=json.dumps({"max_batch_size": 3}))
    found = client.get_model_config("affine")
    assert (found["max_batch_size"] if isinstance(found, dict) else found.config.max_batch_size) == 3
    assert client.is_model_ready("affine", "1")


def test_refusals(client):
    for name, says in [
        ("unknown_model", "failed to load 'unknown_model', failed to poll from model repository"),
        ("..", "model name must not contain path traversal characters"),
        ("%2e%2e%2fetc", "(path traversal characters|failed to poll)"),
        (" ", "Model name cannot be empty"),
    ]:
        with pytest.raises(InferenceServerException, match=says):
            client.load_model(name)
    with pytest.raises(InferenceServerException, match="failed to unload 'unknown_model'"):
        client.unload_model("unknown_model")
    with pytest.raises(InferenceServerException, match="path traversal characters"):
        client.load_model("batched", config="{}", files={"file:1/../../../x": b"x"})


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{", "the parameter `config`: must be the JSON of a ModelConfig"),
        ("[]", "the parameter `config`: must be the JSON of a ModelConfig: it is no JSON object"),
        ('{"nonsense": 1}', "no field 'nonsense'"),
        ('{"max_batch_size": "eight"}', "max_batch_size"),
        ('{"max_batch_size": -1}', "max_batch_size: must be an integer from 0"),
        ('{"backend": "none"}', "the parameter `config`: backend: model 'affine' wants 'none'"),
        ('{"input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [4]}]}', "the model says"),
        ('{"version_policy": {"specific": {"versions": [9]}}}', "at least one version must be available"),
        ("[" * 5000, "JSON nesting depth"),
    ],
)
def test_a_wrong_configuration_is_the_clients_mistake(client, root, config, says):
    with pytest.raises(InferenceServerException, match=re.escape(says)) as refused:
        client.load_model("affine", config=config)
    assert refused.value.status() in {"400", "StatusCode.INVALID_ARGUMENT"}
    assert str(root) not in refused.value.message()


def test_why_a_model_cannot_be_loaded_is_told_without_the_paths_of_the_server(client, root):
    (root / "junk" / "1").mkdir(parents=True, exist_ok=True)
    (root / "junk" / "1" / "model.onnx").write_bytes(b"junk")
    says = (
        "load failed for model 'junk': version 1 is at UNAVAILABLE state: junk/1/model.onnx: ONNX Runtime cannot load"
    )
    with pytest.raises(InferenceServerException, match=re.escape(says)) as refused:
        client.load_model("junk")
    assert refused.value.status() in {"500", "StatusCode.INTERNAL"}
    assert str(root) not in refused.value.message()
    state, reason = index(client)["junk"]
    assert state == "UNAVAILABLE"
    assert reason.startswith("junk/1/model.onnx: ONNX Runtime cannot load this file")
    assert str(root) not in reason


def test_compat_tells_the_whole_cause(root):
    (root / "junk" / "1").mkdir(parents=True, exist_ok=True)
    (root / "junk" / "1" / "model.onnx").write_bytes(b"junk")
    options = ProtocolOptions(compat=True)
    with OipServer().running(root, options, mode=ControlMode.EXPLICIT) as server:
        for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
            with (
                module.InferenceServerClient(address) as client,
                pytest.raises(InferenceServerException, match=re.escape(str(root))),
            ):
                client.load_model("junk")


@pytest.mark.parametrize(("compat", "statuses"), [(False, ("501", "UNIMPLEMENTED")), (True, ("503", "UNAVAILABLE"))])
def test_no_control_is_no_lack_of_room_but_for_triton(root, compat, statuses):
    with OipServer().running(root, ProtocolOptions(compat=compat), all_ready=None) as server:
        for module, address, status in zip(
            (tritonclient.http, tritonclient.grpc), (server.http, server.grpc), statuses, strict=True
        ):
            with module.InferenceServerClient(address) as client:
                for ask in (client.load_model, client.unload_model):
                    with pytest.raises(InferenceServerException, match="explicit model load") as caught:
                        ask("batched")
                    assert caught.value.status().endswith(status)


def test_no_control_unless_it_is_explicit(server):
    for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            with pytest.raises(InferenceServerException, match="explicit model load / unload is not allowed if"):
                client.load_model("batched")
            with pytest.raises(InferenceServerException, match="explicit model load / unload is not allowed if"):
                client.unload_model("batched")
            assert client.is_model_ready("batched")
