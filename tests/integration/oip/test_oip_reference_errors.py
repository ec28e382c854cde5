"""What Triton's clients match on: the text and the status of every refusal, over both protocols."""

import concurrent.futures
import http.client
import json
from dataclasses import dataclass

import grpc
import pytest
from oip_server import OipServer, write_models

from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_options import ProtocolOptions, checked_restrictions

SIZES = {"FP32": 4, "INT32": 4, "BYTES": 0}
NOTE = "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request that both protocols can carry, and what is answered."""

    text: str
    status: int = 400
    code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT
    model: str = "batched"
    version: str = ""
    inputs: tuple = (("INPUT0", "FP32", (1, 4)),)  # name, datatype, shape
    raw: bytes | None = None  # instead of zeros
    outputs: tuple = ()
    classification: int = 0
    parameters: tuple = ()


NOT_FOUND = {"status": 404, "code": grpc.StatusCode.NOT_FOUND}
TWO = (("A", "FP32", (1, 3)), ("B", "FP32", (1, 3)))
CASES = [
    Case(text="Request for unknown model: 'foo' is not found", model="foo", **NOT_FOUND),
    Case(text="Request for unknown model: 'batched' version 99 is not found", version="99", **NOT_FOUND),
    Case(
        text="expected 2 inputs but got 1 inputs for model 'affine'. Got input(s) ['A'], but missing required input(s) "
        "['B']. Please provide all required input(s).",
        model="affine",
        inputs=TWO[:1],
    ),
    Case(
        text="expected 2 inputs but got 0 inputs for model 'affine'. Got input(s) [], but missing required input(s) "
        "['A','B']. Please provide all required input(s).",
        model="affine",
        inputs=(),
    ),
    Case(text="unexpected inference input 'X' for model 'batched'", inputs=(("X", "FP32", (1, 4)),)),
    Case(text="input 'A' already exists in request", model="affine", inputs=(TWO[0], TWO[0])),
    Case(text="output 'O' already exists in request", outputs=("O", "O")),
    Case(text="unexpected inference output 'O' for model 'batched'", outputs=("O",)),
    Case(
        text="unexpected shape for input 'INPUT0' for model 'batched'. Expected [-1,4], got [1,8].",
        inputs=(("INPUT0", "FP32", (1, 8)),),
    ),
    Case(text=NOTE, inputs=(("INPUT0", "FP32", (4,)),)),
    Case(
        text="inference input 'INPUT0' data-type is 'INT32', but model 'batched' expects 'FP32'",
        inputs=(("INPUT0", "INT32", (1, 4)),),
    ),
    Case(
        text="input 'B' batch size does not match other inputs for 'affine'",
        model="affine",
        inputs=(TWO[0], ("B", "FP32", (2, 3))),
    ),
    Case(text="inference request batch-size must be <= 8 for 'batched'", inputs=(("INPUT0", "FP32", (9, 4)),)),
    Case(text="input byte size mismatch for input 'INPUT0' for model 'batched'. Expected 16, got 20", raw=bytes(20)),
    Case(
        text="expected 2 string elements for inference input 'INPUT0' for model 'identity_bytes', got 1",
        model="identity_bytes",
        inputs=(("INPUT0", "BYTES", (2,)),),
        raw=bytes(4),
    ),
    Case(
        text="unexpected number of string elements 2 for inference input 'INPUT0' for model 'identity_bytes', "
        "expecting 1",
        model="identity_bytes",
        inputs=(("INPUT0", "BYTES", (1,)),),
        raw=bytes(8),
    ),
    Case(
        text="incomplete string data for inference input 'INPUT0'",
        model="identity_bytes",
        inputs=(("INPUT0", "BYTES", (1,)),),
        raw=b"\xff\xff\xff\xff",
    ),
    Case(
        text="causes total element count to exceed maximum size of",
        model="identity_fp32",
        inputs=(("INPUT0", "FP32", (1 << 40, 1 << 40)),),
        raw=b"",
    ),
    Case(
        text="class result not available for output due to unsupported type 'BYTES'",
        model="identity_bytes",
        inputs=(("INPUT0", "BYTES", (1,)),),
        raw=bytes(4),
        outputs=("OUTPUT0",),
        classification=1,
    ),
    Case(
        text="classification output tensor too large",
        model="identity_fp32",
        inputs=(("INPUT0", "FP32", (1_000_001,)),),
        outputs=("OUTPUT0",),
        classification=1,
    ),
    Case(text="parameter keys starting with 'triton_' are reserved for Triton usage", parameters=(("triton_own", 1),)),
    Case(
        text="invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
        parameters=(("sequence_id", True),),
    ),
    Case(
        text="invalid value type for 'sequence_start' parameter, expected bool_param",
        parameters=(("sequence_start", 1),),
    ),
    Case(text="invalid value type for 'timeout' parameter, expected int64_param", parameters=(("timeout", "1"),)),
    Case(text="invalid value type for 'priority' parameter, expected int64_param", parameters=(("priority", True),)),
    Case(text="'broken' version 1 is not at ready state", status=503, code=grpc.StatusCode.UNAVAILABLE, model="broken"),
]


def blob(case, datatype, shape):
    if case.raw is not None:
        return case.raw
    count = 1
    for dimension in shape:
        count *= dimension
    return bytes(count * SIZES[datatype])


def over_http(address, case, **extra):
    """Sends it as JSON with binary data. The status and the answer."""
    blobs = [blob(case, datatype, shape) for _, datatype, shape in case.inputs]
    message = {
        "inputs": [
            {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(raw)}}
            for (name, datatype, shape), raw in zip(case.inputs, blobs, strict=True)
        ],
        "outputs": [
            {"name": name, "parameters": {"classification": case.classification}}
            if case.classification
            else {"name": name}
            for name in case.outputs
        ],
        "parameters": dict(case.parameters),
        **extra,
    }
    if not case.outputs:
        del message["outputs"]
    text = json.dumps(message).encode()
    connection = http.client.HTTPConnection(address, timeout=20)
    version = f"/versions/{case.version}" if case.version else ""
    headers = {"Inference-Header-Content-Length": str(len(text))}
    connection.request("POST", f"/v2/models/{case.model}{version}/infer", text + b"".join(blobs), headers)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, body


def over_grpc(address, case, **extra):
    """Sends it with raw contents. The code and the details."""
    messages = service_messages()
    message = messages.ModelInferRequest(model_name=case.model, model_version=case.version, **extra)
    for name, datatype, shape in case.inputs:
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(blob(case, datatype, shape))
    for name in case.outputs:
        output = message.outputs.add(name=name)
        if case.classification:
            output.parameters["classification"].int64_param = case.classification
    for name, value in case.parameters:
        field = {bool: "bool_param", int: "int64_param", str: "string_param"}[type(value)]
        setattr(message.parameters[name], field, value)
    with grpc.insecure_channel(address) as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages.ModelInferResponse.FromString,
        )
        with pytest.raises(grpc.RpcError) as raised:
            infer(message, timeout=20)
    return raised.value.code(), raised.value.details()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write_models(root)
    broken = root / "broken"
    (broken / "1").mkdir(parents=True)
    (broken / "config.pbtxt").write_text('backend: "onnxruntime"')
    full = root / "full"
    (full / "1").mkdir(parents=True)
    (full / "config.pbtxt").write_text(
        """
        backend: "identity"
        max_batch_size: 1
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
        dynamic_batching { default_queue_policy { max_queue_size: 1 } }
        parameters { key: "execute_delay_ms" value { string_value: "400" } }
        """
    )
    return root


@pytest.fixture(scope="module")
def server(models):
    with OipServer().running(models, all_ready=False) as running:
        yield running


@pytest.fixture(scope="module")
def compat(models):
    options = ProtocolOptions(
        compat=True, grpc_restricted=checked_restrictions(("trace:k=v",), "--grpc-restricted-protocol")
    )
    with OipServer().running(models, options, all_ready=False) as running:
        yield running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[:60])
def test_both_protocols_say_the_same(server, case):
    status, answer = over_http(server.http, case)
    assert (status, case.text in answer["error"]) == (case.status, True), answer
    code, details = over_grpc(server.grpc, case)
    assert (code, case.text in details) == (case.code, True), details
    assert details == answer["error"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[:60])
def test_compat_keeps_the_texts(compat, case):
    status, answer = over_http(compat.http, case)
    assert (status, case.text in answer["error"]) == (case.status, True), answer


LATE = Case(
    text="Request timeout expired",
    status=503,
    code=grpc.StatusCode.UNAVAILABLE,
    model="slow",
    inputs=(("INPUT0", "FP32", (1,)),),
    parameters=(("timeout", 100_000),),
)


def crowd(send):
    """Sends four requests at once to a model that takes one for 200 ms: what those get that may wait 100 ms."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: send(), range(4)))
    late = [answer for answer in answers if answer is not None]
    assert 1 <= len(late) < len(answers)
    return late


def late_over_http(address, **extra):
    def send():
        status, answer = over_http(address, LATE, **extra)
        assert status in (200, LATE.status)
        return answer["error"] if status == LATE.status else None

    return crowd(send)


def late_over_grpc(address, **extra):
    def send():
        try:
            code, details = over_grpc(address, LATE, **extra)
        except pytest.fail.Exception:  # it was answered
            return None
        assert code is LATE.code
        return details

    return crowd(send)


def test_a_request_that_waits_too_long_is_named_by_its_id(server, compat):
    for late, address, of_compat in (
        (late_over_http, server.http, compat.http),
        (late_over_grpc, server.grpc, compat.grpc),
    ):
        assert all(text.startswith("Request timeout expired") for text in late(address))
        assert all(text.startswith("[request id: mine] Request timeout expired") for text in late(address, id="mine"))
        found = late(of_compat)
        assert all(text.startswith("[request id: <id_unknown>] Request timeout expired") for text in found)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"inputs": [{"name": 1}]}, "attempt to access JSON non-string as string"),
        ({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [-1, 4], "data": []}]},
         "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ({"inputs": 1}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
    ],
)  # fmt: skip
def test_json_of_the_wrong_type(server, compat, message, text):
    for running, expected in ((server, 400), (compat, 500)):
        connection = http.client.HTTPConnection(running.http, timeout=20)
        connection.request("POST", "/v2/models/batched/infer", json.dumps(message))
        answer = connection.getresponse()
        assert answer.status == expected
        assert text in json.loads(answer.read())["error"]
        connection.close()


def test_a_full_queue(server):
    case = Case(text="Exceeds maximum queue size", model="full", inputs=(("INPUT0", "FP32", (1, 1)),))

    def send(_):
        return over_http(server.http, case)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(send, range(6)))
    refused = [body["error"] for status, body in answers if status == 503]
    assert sorted({status for status, _ in answers}) == [200, 503]
    assert refused
    assert all("Exceeds maximum queue size" in error for error in refused)


def test_the_quirks(compat):
    connection = http.client.HTTPConnection(compat.http, timeout=20)

    def get(path):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()

    assert json.loads(get("/v2")[1])["name"] == "triton"
    assert get("/v2/health/live") == (200, b"")
    assert get("/v2/health/ready") == (400, b"")
    assert get("/v2/models/batched/ready") == (200, b"")
    connection.close()
    messages = service_messages()
    with grpc.insecure_channel(compat.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/TraceSetting")
        with pytest.raises(grpc.RpcError) as raised:
            call(messages.TraceSettingRequest().SerializeToString(), timeout=20)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert raised.value.details() == "This protocol is restricted, expecting header 'triton-grpc-protocol-k'"
