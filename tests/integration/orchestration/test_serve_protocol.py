"""The options of `trilith serve` that concern the Open Inference Protocol, in a whole server."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

MODEL = """
backend: "identity" max_batch_size: 0
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models" / "same"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(MODEL)
    return tmp_path / "models"


def test_the_options_reach_the_gateway(serve, models):
    server = serve(
        models,
        *("--compat", "triton"),
        *("--http-restricted-api", "statistics,model-config:admin-key=secret"),
        *("--grpc-restricted-protocol", "metadata:admin-key=secret"),
        *("--http-header-forward-pattern", ".*"),
    )

    def get(path, **headers):
        with server.connection() as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    assert json.loads(get("/v2")[1])["name"] == "triton"
    assert get("/v2/health/ready") == (200, b"")
    status, body = get("/v2/models/same/config")
    assert (status, json.loads(body)["error"]) == (403, "This API is restricted, expecting header 'admin-key'")
    assert get("/v2/models/same/config", **{"Admin-Key": "secret"})[0] == 200
    message = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
    status, body = server.post("/v2/models/same/infer", message, headers={"triton_own": "1"})
    assert (status, "reserved for Triton usage" in body["error"]) == (400, True)
    with pytest.raises(InferenceServerException, match="expecting header 'triton-grpc-protocol-admin-key'"):
        metadata(server.grpc)
    assert metadata(server.grpc, {"triton-grpc-protocol-admin-key": "secret"}).name == "triton"


@pytest.mark.parametrize("level", ["none", "high"])
def test_answers_of_models_are_compressed_over_grpc(serve, models, level):
    """NVIDIA's client accepts gzip without being asked to."""
    server = serve(models, "--grpc-infer-response-compression-level", level)
    values = np.zeros(1 << 20, np.float32)
    tensor = tritonclient.grpc.InferInput("INPUT0", [len(values)], "FP32")
    tensor.set_data_from_numpy(values)
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        answer = client.infer("same", [tensor]).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(answer, values)
    sent = sent_bytes(server, "grpc")
    assert sent < 1 << 16 if level == "high" else sent > 4 << 20


def sent_bytes(server, protocol):
    lines = server.get("/metrics", port=server.metrics)[1].decode().splitlines()
    [line] = [line for line in lines if line.startswith(f'trilith_sent_bytes_total{{protocol="{protocol}"}}')]
    return float(line.rpartition(" ")[2])


def metadata(port, headers=None):
    with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
        return client.get_server_metadata(headers=headers)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--http-restricted-api", "everything:a=b", "--http-restricted-api: unknown group 'everything'"),
        ("--grpc-header-forward-pattern", "(", "--grpc-header-forward-pattern: expected a regular expression"),
    ],
)
def test_a_wrong_option_is_one_line(serve, models, option, value, text):
    server = serve(models, option, value, ready=False)
    assert server.wait_line(text).startswith("trilith: ")
    assert server.process.wait(30) != 0
