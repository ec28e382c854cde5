"""Programs written for Triton: `tritonclient` over HTTP and gRPC, synchronous."""

import concurrent.futures

import grpc as grpcio
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

SAMPLES = {
    "bool": np.array([True, False, True]),
    "uint8": np.array([0, 255, 7], np.uint8),
    "uint16": np.array([0, 65535, 7], np.uint16),
    "uint32": np.array([0, 2**32 - 1, 7], np.uint32),
    "uint64": np.array([0, 2**64 - 1, 7], np.uint64),
    "int8": np.array([-128, 127, 7], np.int8),
    "int16": np.array([-(2**15), 2**15 - 1, 7], np.int16),
    "int32": np.array([-(2**31), 2**31 - 1, 7], np.int32),
    "int64": np.array([-(2**63), 2**63 - 1, 7], np.int64),
    "fp16": np.array([0.5, -65504, np.inf], np.float16),
    "fp32": np.array([0.1, -3.4e38, 7], np.float32),
    "fp64": np.array([0.1, -1.7e308, 7], np.float64),
    "bf16": np.array([0.5, -3.0, 7], ml_dtypes.bfloat16),
    "bytes": np.array([b"abc", b"", "grüße".encode()], np.object_),
}


@pytest.fixture(scope="module")
def http(server):
    with tritonclient.http.InferenceServerClient(server.http, concurrency=8) as client:
        yield client


@pytest.fixture(scope="module")
def grpc(server):
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        yield client


@pytest.fixture(params=["http", "grpc"])
def client(request):
    return request.getfixturevalue(request.param)


def _module(client):
    return tritonclient.http if isinstance(client, tritonclient.http.InferenceServerClient) else tritonclient.grpc


def _input(client, array, name="INPUT0", **options):
    tensor = _module(client).InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array, **options)
    return tensor


def _infer(client, model, array, **options):
    return client.infer(model, [_input(client, array)], **options)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_every_datatype(client, name):
    array = SAMPLES[name]
    result = _infer(client, f"identity_{name}", array).as_numpy("OUTPUT0")
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("fp16", "bf16")])
@pytest.mark.parametrize("binary_input", [True, False])
def test_every_datatype_as_json(http, name, binary_input):
    array = SAMPLES[name]
    tensor = _input(http, array, binary_data=binary_input)
    output = tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=False)
    result = http.infer(f"identity_{name}", [tensor], outputs=[output]).as_numpy("OUTPUT0")
    expected = np.array([element.decode() for element in array], np.object_) if name == "bytes" else array
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [0, 1, 100_000, 500_000])
def test_sizes(client, size):
    array = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(_infer(client, "identity_fp32", array).as_numpy("OUTPUT0"), array)


def test_nan_and_infinity_as_json(http):
    array = np.array([np.nan, np.inf, -np.inf], np.float32)
    tensor = _input(http, array, binary_data=False)
    output = tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=False)
    result = http.infer("identity_fp32", [tensor], outputs=[output]).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(result, array)


def test_an_onnx_model_and_a_choice_of_outputs(client):
    left, right = np.array([[1, 2, 3]], np.float32), np.array([[4, 5, 6]], np.float32)
    inputs = [_input(client, left, "A"), _input(client, right, "B")]
    result = client.infer("affine", inputs)
    np.testing.assert_array_equal(result.as_numpy("SUM"), left + right)
    np.testing.assert_array_equal(result.as_numpy("PRODUCT"), left * right)
    chosen = client.infer("affine", inputs, outputs=[_module(client).InferRequestedOutput("PRODUCT")])
    assert chosen.as_numpy("SUM") is None
    np.testing.assert_array_equal(chosen.as_numpy("PRODUCT"), left * right)


def test_ids_versions_and_parameters(client):
    result = _infer(
        client, "identity_fp32", SAMPLES["fp32"], request_id="mine", model_version="1", parameters={"own": 5}
    )
    response = result.get_response()
    found = response if isinstance(response, dict) else {"id": response.id, "model_version": response.model_version}
    assert (found["id"], found["model_version"]) == ("mine", "1")


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("affine")
    assert client.is_model_ready("affine", "1")
    assert not client.is_model_ready("affine", "2")
    assert not client.is_model_ready("unknown")
    as_json = {} if _module(client) is tritonclient.http else {"as_json": True}
    assert client.get_server_metadata(**as_json)["name"] == "trilith"
    metadata = client.get_model_metadata("affine", **as_json)
    assert metadata["platform"] == "onnxruntime_onnx"
    assert metadata["versions"] == ["1"]
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["A", "B"]
    assert list(map(int, metadata["inputs"][0]["shape"])) == [-1, 3]
    config = client.get_model_config("affine", **as_json)
    assert config.get("config", config)["max_batch_size"] == 8
    index = client.get_model_repository_index(**as_json)
    assert {"name": "affine", "version": "1", "state": "READY"}.items() <= {
        key: value
        for model in (index if isinstance(index, list) else index["models"])
        if model["name"] == "affine"
        for key, value in model.items()
    }.items()


def test_statistics(client):
    _infer(client, "batched", np.zeros((3, 4), np.float32))
    as_json = {} if _module(client) is tritonclient.http else {"as_json": True}
    (found,) = client.get_inference_statistics("batched", **as_json)["model_stats"]
    assert int(found["inference_count"]) >= 3
    assert int(found["inference_stats"]["success"]["count"]) >= 1
    assert any(int(batch["batch_size"]) == 3 for batch in found["batch_stats"])
    every = client.get_inference_statistics(**as_json)["model_stats"]
    assert len(every) > 10


def _wrong(client, model="batched", array=None, **options):
    with pytest.raises(InferenceServerException) as raised:
        _infer(client, model, np.zeros((1, 4), np.float32) if array is None else array, **options)
    return raised.value


@pytest.mark.parametrize(
    ("options", "http_status", "grpc_status", "text"),
    [
        ({"model": "unknown"}, "404", "NOT_FOUND", "unknown model: 'unknown' is not found"),
        ({"model_version": "9"}, "404", "NOT_FOUND", "version 9 is not found"),
        ({"array": np.zeros((1, 5), np.float32)}, "400", "INVALID_ARGUMENT", "unexpected shape for input 'INPUT0'"),
        ({"array": np.zeros((9, 4), np.float32)}, "400", "INVALID_ARGUMENT", "batch-size must be <= 8"),
        ({"array": np.zeros((1, 4), np.int8)}, "400", "INVALID_ARGUMENT", "data-type is 'INT8'"),
    ],
)
def test_errors_have_status_and_text(client, options, http_status, grpc_status, text):
    error = _wrong(client, **options)
    expected = http_status if _module(client) is tritonclient.http else f"StatusCode.{grpc_status}"
    assert error.status() == expected
    assert text in error.message()


def test_wrong_names_and_outputs(client):
    array = np.zeros((1, 4), np.float32)
    cases = [
        ([_input(client, array, "X")], None, "unexpected inference input 'X'"),
        ([_input(client, array), _input(client, array)], None, "already exists in request"),
        ([], None, "missing required input"),
        ([_input(client, array)], [_module(client).InferRequestedOutput("X")], "unexpected inference output 'X'"),
    ]
    for inputs, outputs, text in cases:
        with pytest.raises(InferenceServerException, match=text):
            client.infer("batched", inputs, outputs=outputs)


def test_a_timeout_bounds_the_wait(client):
    array = np.zeros(1, np.float32)
    _infer(client, "slow", array, timeout=20_000)  # it takes 200 ms, and waits for nothing

    def outcome(wait):
        try:
            return wait()
        except InferenceServerException as error:
            return error

    if _module(client) is tritonclient.http:
        pending = [client.async_infer("slow", [_input(client, array)], timeout=20_000) for _ in range(4)]
        answers = [outcome(each.get_result) for each in pending]
    else:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(outcome, [lambda: _infer(client, "slow", array, timeout=20_000)] * 4))
    late = [answer for answer in answers if isinstance(answer, InferenceServerException)]
    assert 1 <= len(late) < 4
    assert all(error.status() in ("503", "StatusCode.UNAVAILABLE") for error in late)
    assert all("Request timeout expired" in error.message() for error in late)


def test_the_clients_deadline(grpc):
    error = _wrong(grpc, "slow", np.zeros(1, np.float32), client_timeout=0.05)
    assert error.status() == "StatusCode.DEADLINE_EXCEEDED"
    np.testing.assert_array_equal(_infer(grpc, "slow", np.ones(1, np.float32)).as_numpy("OUTPUT0"), np.ones(1))


def test_a_cancelled_call(grpc):
    done = concurrent.futures.Future()
    call = grpc.async_infer(
        "slow",
        [_input(grpc, np.zeros(1, np.float32))],
        callback=lambda result, error: done.set_result((result, error)),
    )
    call.cancel()
    result, error = done.result(10)
    assert result is None
    assert error.status() == "StatusCode.CANCELLED"


def test_streaming_is_refused_with_a_sentence(server):
    request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="identity_fp32")
    with grpcio.insecure_channel(server.grpc) as channel:
        stub = tritonclient.grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpcio.RpcError) as raised:
            list(stub.ModelStreamInfer(iter([request])))
    assert raised.value.code() is grpcio.StatusCode.UNIMPLEMENTED
    assert "does not offer it" in raised.value.details()


def test_many_at_once(client):
    def one(number):
        array = np.full((1 + number % 3, 4), number, np.float32)
        return np.array_equal(_infer(client, "batched", array).as_numpy("OUTPUT0"), array)

    if _module(client) is tritonclient.http:
        # geventhttpclient's sockets belong to the thread that made them: one client may not be shared, its pool may.
        inputs = [np.full((1 + number % 3, 4), number, np.float32) for number in range(64)]
        pending = [client.async_infer("batched", [_input(client, array)]) for array in inputs]
        for array, answer in zip(inputs, pending, strict=True):
            np.testing.assert_array_equal(answer.get_result().as_numpy("OUTPUT0"), array)
        return
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(64)))
