"""The extensions, as `tritonclient` and plain HTTP clients use them."""

import gzip
import http.client
import json

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from google.protobuf import json_format
from oip_server import MAX_BODY_BYTES, OipServer, write_models
from tritonclient.utils import InferenceServerException

from trilith.wire.oip_options import ProtocolOptions


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write_models(root)
    config = root / "batched" / "config.pbtxt"
    config.write_text(
        config.read_text().replace('name: "OUTPUT0"', 'name: "OUTPUT0" label_filename: "labels.txt"')
        + "dynamic_batching { priority_levels: 3 default_priority_level: 2 max_queue_delay_microseconds: 100 }"
    )
    (root / "batched" / "labels.txt").write_text("zero\none\ntwo\nthree\n")
    with OipServer().running(root, ProtocolOptions(max_body_bytes=MAX_BODY_BYTES)) as running:
        yield running


@pytest.fixture(scope="module")
def http_client(server):
    with tritonclient.http.InferenceServerClient(server.http) as client:
        yield client


@pytest.fixture(scope="module")
def grpc_client(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        yield client


@pytest.fixture(params=["http", "grpc"])
def client(request):
    return request.getfixturevalue(f"{request.param}_client")


@pytest.fixture
def post(server):
    connection = http.client.HTTPConnection(server.http, timeout=20)

    def send(path, body, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers

    yield send
    connection.close()


def given(client, array, name="INPUT0", **options):
    module = tritonclient.http if isinstance(client, tritonclient.http.InferenceServerClient) else tritonclient.grpc
    tensor = module.InferInput(name, list(array.shape), "FP32")
    tensor.set_data_from_numpy(array, **options)
    return module, [tensor]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("size", [4, 1000, 100_000])
def test_compressed_both_ways(http_client, size, coding, binary):
    array = np.arange(size, dtype=np.float32)
    _, inputs = given(http_client, array, binary_data=binary)
    outputs = [tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=binary)]
    result = http_client.infer(
        "identity_fp32",
        inputs,
        outputs=outputs,
        request_compression_algorithm=coding,
        response_compression_algorithm=coding,
        query_params={"any": "thing"},
    )
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)


def test_an_answer_is_compressed_only_when_asked_for(post):
    message = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2000], "data": [0.0] * 2000}]}
    path = "/v2/models/identity_fp32/infer"
    _, plain, headers = post(path, message)
    assert headers["content-encoding"] is None
    _, body, headers = post(path, message, accept_encoding="br;q=1, gzip;q=0.5")
    assert headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body)) == json.loads(plain)
    assert len(body) < len(plain) / 10


def test_a_bomb_is_one_refusal(post):
    bomb = gzip.compress(bytes(MAX_BODY_BYTES * 8))
    assert len(bomb) < MAX_BODY_BYTES // 50
    status, body, _ = post("/v2/models/batched/infer", bomb, content_encoding="gzip")
    assert status == 413
    assert "exceeds the maximum allowed input size" in json.loads(body)["error"]
    assert post("/v2/models/identity_fp32/generate", {"INPUT0": 1.0})[0] == 200


@pytest.mark.parametrize("binary", [True, False])
def test_classification(client, binary):
    array = np.array([[0.1, 0.7, 0.2, 0.0], [9, 8, 7, 10]], np.float32)
    module, inputs = given(client, array)
    options = {"binary_data": binary} if module is tritonclient.http else {}
    outputs = [module.InferRequestedOutput("OUTPUT0", class_count=2, **options)]
    found = client.infer("batched", inputs, outputs=outputs).as_numpy("OUTPUT0")
    texts = [[each if isinstance(each, bytes) else each.encode() for each in row] for row in found]
    assert texts == [[b"0.700000:1:one", b"0.200000:2:two"], [b"10.000000:3:three", b"9.000000:0:zero"]]


def test_generate(post):
    path = "/v2/models/identity_bytes/generate"
    status, body, _ = post(path, {"INPUT0": "grüße", "id": "mine", "stream": False, "parameters": {"top": 1}})
    assert status == 200
    assert json.loads(body) == {
        "id": "mine", "model_name": "identity_bytes", "model_version": "1", "OUTPUT0": "grüße"
    }  # fmt: skip
    assert json.loads(post(path, {"INPUT0": ["a", "b"]})[1])["OUTPUT0"] == ["a", "b"]
    assert json.loads(post("/v2/models/batched/versions/1/generate", {"INPUT0": [1, 2, 3, 4]})[1])["OUTPUT0"] == [
        1.0, 2.0, 3.0, 4.0
    ]  # fmt: skip
    status, body, _ = post(path, {"INPUT0": "a", "nested": {"a": 1}})
    assert (status, "parameter 'nested' has invalid type" in json.loads(body)["error"]) == (400, True)
    status, body, _ = post(path, {})
    assert (status, "missing required input" in json.loads(body)["error"]) == (400, True)


def test_generate_stream(post):
    status, body, headers = post("/v2/models/identity_bytes/generate_stream", {"INPUT0": "hi"}, accept_encoding="gzip")
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert headers["content-encoding"] is None
    assert body == b'data: {"model_name":"identity_bytes","model_version":"1","OUTPUT0":"hi"}\n\n'
    status, body, headers = post("/v2/models/unknown/generate_stream", {"INPUT0": "hi"})
    assert (status, headers["content-type"]) == (404, "application/json")
    assert "Request for unknown model: 'unknown' is not found" in json.loads(body)["error"]


def test_priority_timeout_and_parameters_are_taken(client):
    array = np.ones((1, 4), np.float32)
    _, inputs = given(client, array)
    result = client.infer(
        "batched", inputs, priority=1, timeout=5_000_000, request_id="r", parameters={"a": 1, "b": True, "c": "d"}
    )
    answer = result.get_response()
    assert (answer["id"] if isinstance(answer, dict) else answer.id) == "r"


def as_json(message):
    """A protobuf message with its own names and numbers as numbers, as Triton's HTTP writes it."""
    return json.loads(
        json_format.MessageToJson(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True),
        parse_int=int,
    )


def numbers(value):
    """protobuf's JSON writes 64-bit numbers as text."""
    if isinstance(value, dict):
        return {key: numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [numbers(each) for each in value]
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


@pytest.mark.parametrize("model", ["batched", "affine", "identity_bytes"])
def test_the_configuration_is_the_same_over_both(http_client, grpc_client, model):
    over_http = http_client.get_model_config(model)
    over_grpc = as_json(grpc_client.get_model_config(model).config)
    assert numbers(over_http) == numbers(over_grpc)
    assert over_http["name"] == model
    assert over_http["input"][0]["data_type"].startswith("TYPE_")
    assert over_http["input"][0]["format"] == "FORMAT_NONE"
    if model == "batched":
        assert over_http["dynamic_batching"]["max_queue_delay_microseconds"] == 100
        assert over_http["output"][0]["label_filename"] == "labels.txt"


def test_the_statistics_are_the_same_over_both(http_client, grpc_client):
    _, inputs = given(http_client, np.ones((2, 3), np.float32), "A")
    _, more = given(http_client, np.ones((2, 3), np.float32), "B")
    http_client.infer("affine", [*inputs, *more])
    with pytest.raises(InferenceServerException):
        http_client.infer("affine", inputs)
    over_http = http_client.get_inference_statistics("affine")
    over_grpc = as_json(grpc_client.get_inference_statistics("affine"))
    assert numbers(over_http) == numbers(over_grpc)
    (found,) = over_http["model_stats"]
    assert (found["name"], found["version"]) == ("affine", "1")
    assert (found["inference_count"], found["execution_count"]) == (2, 1)
    stats = found["inference_stats"]
    assert {name: stats[name]["count"] for name in stats} == {
        "success": 1, "fail": 0, "queue": 1, "compute_input": 1, "compute_infer": 1, "compute_output": 1,
        "cache_hit": 0, "cache_miss": 0,
    }  # fmt: skip
    phases = sum(stats[name]["ns"] for name in ("queue", "compute_input", "compute_infer", "compute_output"))
    assert phases <= stats["success"]["ns"]
    assert [each["batch_size"] for each in found["batch_stats"]] == [2]
    assert found["last_inference"] > 1_600_000_000_000
    everything = numbers(http_client.get_inference_statistics())
    assert {each["name"] for each in everything["model_stats"]} > {"affine", "batched"}
    for client, status in ((http_client, "404"), (grpc_client, "StatusCode.NOT_FOUND")):
        for name, version in (("unknown", ""), ("affine", "7")):
            with pytest.raises(InferenceServerException, match="Request for unknown model") as raised:
                client.get_inference_statistics(name, version)
            assert raised.value.status() == status


def test_what_is_switched_off(client):
    cases = [
        (client.get_trace_settings, (), "the server does not support trac"),
        (client.update_trace_settings, ("affine", {"trace_level": ["OFF"]}), "the server does not support trac"),
        (client.get_log_settings, (), "the server does not support dynamic logging"),
        (client.update_log_settings, ({"log_info": True},), "the server does not support dynamic logging"),
        (client.register_system_shared_memory, ("r", "/r", 4), "Client shared memory is disabled"),
        (client.unregister_system_shared_memory, ("r",), "Client shared memory is disabled"),
        (client.unregister_cuda_shared_memory, (), "Client shared memory is disabled"),
    ]
    for call, arguments, text in cases:
        with pytest.raises(InferenceServerException, match=text) as raised:
            call(*arguments)
        assert raised.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
    for status in (client.get_system_shared_memory_status(), client.get_cuda_shared_memory_status()):
        assert (status if isinstance(status, list) else list(status.regions)) == []
    metadata = client.get_server_metadata()
    extensions = metadata["extensions"] if isinstance(metadata, dict) else metadata.extensions
    assert "classification" in extensions
    assert not {"trace", "logging", "system_shared_memory"} & set(extensions)
