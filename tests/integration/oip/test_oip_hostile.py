"""What no good client sends, over real sockets: each gets one clear answer, and the server goes on."""

import gzip
import http.client
import json
import socket
import struct

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from oip_server import MAX_BODY_BYTES
from waiting import wait_until

from trilith.wire.oip_messages import service_messages

PATH = "/v2/models/batched/infer"
GOOD = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}


@pytest.fixture
def connection(server):
    connection = http.client.HTTPConnection(server.http, timeout=20)
    yield connection
    connection.close()


def _post(connection, body, path=PATH, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def _serves(connection):
    status, body, _ = _post(connection, GOOD)
    return status == 200 and json.loads(body)["outputs"][0]["data"] == [1, 2, 3, 4]


def _tensor(**changes):
    return {"inputs": [{**GOOD["inputs"][0], **changes}]}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "failed to parse"),
        (b"not json", "failed to parse"),
        (b"[" * 100_000, "failed to parse"),
        (b'{"inputs":' * 2000, "failed to parse"),
        ({}, "Unable to parse 'inputs'"),
        (_tensor(shape=[2**62, 2**62]), "exceed maximum size"),
        (_tensor(shape=[-1, 4]), "unsigned-integer"),
        (_tensor(data=["1", 2, 3, 4]), "element 0 of 'data' must be a number"),
        (_tensor(data=[1, 2, 3]), "Shape does not match"),
        (_tensor(name="X"), "unexpected inference input 'X'"),
        ({"inputs": GOOD["inputs"] * 2}, "already exists in request"),
    ],
)
def test_malformed_json(connection, body, text):
    status, answer, _ = _post(connection, body)
    assert status == 400
    assert text in json.loads(answer)["error"]
    assert _serves(connection)


@pytest.mark.parametrize("size", [-4, 2**62, 17, 15, 0, "16", None, 1.5])
def test_binary_sizes_that_lie(connection, size):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": size}}
    header = json.dumps({"inputs": [tensor]}).encode()
    status, answer, _ = _post(connection, header + b"\0" * 16, inference_header_content_length=str(len(header)))
    assert status == 400
    assert json.loads(answer)["error"]
    assert _serves(connection)


@pytest.mark.parametrize("length", ["-1", "1e3", "99999", "9" * 40, "", "5"])
def test_header_lengths_that_lie(connection, length):
    status, answer, _ = _post(connection, GOOD, inference_header_content_length=length)
    assert status == 400
    assert json.loads(answer)["error"]
    assert _serves(connection)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PATH, 405),
        ("DELETE", "/v2", 405),
        ("GET", "/v2/models/unknown", 404),
        ("GET", "/v2/x", 404),
        ("GET", "/v2/models/%ff%2e%2e%2fetc/config", 404),
        ("GET", "/v2/models/batched/versions/../config", 404),
    ],
)
def test_wrong_routes(connection, method, path, status):
    connection.request(method, path)
    answer = connection.getresponse()
    assert (answer.status, "error" in json.loads(answer.read())) == (status, True)
    assert _serves(connection)


def test_head_has_no_body_and_405_says_what_is_allowed(connection):
    connection.request("HEAD", "/v2/models/batched")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    assert int(answer.headers["content-length"]) > 0
    connection.request("POST", "/v2")
    answer = connection.getresponse()
    answer.read()
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert _serves(connection)


def test_half_a_surrogate_pair_beside_a_nan(connection):
    body = json.dumps(GOOD).encode()[:-1] + b', "id": "\\ud800", "parameters": {"own": NaN}}'
    status, answer, _ = _post(connection, body)
    assert (status, "surrogate" in json.loads(answer)["error"]) == (400, True)
    assert _serves(connection)


def test_a_body_over_the_limit(connection):
    body = b" " * (MAX_BODY_BYTES + 1)
    try:
        status, answer, _ = _post(connection, body)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before it was read
    else:
        assert status == 413
        assert json.loads(answer)["error"]
    connection.close()
    assert _serves(connection)


def test_a_compressed_body(connection):
    status, answer, _ = _post(connection, b"\x1f\x8b", content_encoding="gzip")
    assert status == 400
    assert "the body is cut off: its gzip does not end" in json.loads(answer)["error"]
    status, answer, _ = _post(connection, b"\x1f\x8b", content_encoding="br")
    assert status == 415
    assert "send gzip, deflate or neither" in json.loads(answer)["error"]


def test_a_raw_request(connection):
    raw = np.array([1, 2, 3], np.float32).tobytes()
    status, answer, headers = _post(
        connection, raw, "/v2/models/identity_fp32/infer", inference_header_content_length="0"
    )
    assert status == 200
    length = int(headers["inference-header-content-length"])
    assert json.loads(answer[:length])["outputs"][0]["shape"] == [3]
    assert answer[length:] == raw


def test_the_timeline_header(connection):
    status, _, headers = _post(connection, GOOD, trilith_timeline="1")
    assert status == 200
    name, _, stamps, children = json.loads(headers["trilith-timeline"])
    assert name == "gateway"
    assert [stage for stage, _ in stamps] == ["received", "decoded", "encoded", "answered"]
    assert children[0][0] == "model batched"
    assert {"queued", "started", "infer"} <= {stage for stage, _ in children[0][2]}


def _metric(connection, line):
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return next((float(found.split()[-1]) for found in text.splitlines() if found.startswith(line)), 0.0)


SLOW = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
CANCELLED = 'trilith_model_requests_total{model="slower",outcome="cancelled",version="1"}'


@pytest.mark.parametrize(
    ("endpoint", "body", "header", "pieces"),
    [
        ("infer", json.dumps(SLOW).encode(), "", 1),
        ("infer", json.dumps(SLOW).encode(), "", 2),
        ("infer", gzip.compress(json.dumps(SLOW).encode()), "content-encoding: gzip\r\n", 1),
        ("generate", b'{"INPUT0": 1}', "", 1),
        ("generate_stream", b'{"INPUT0": 1}', "", 2),
    ],
    ids=["infer", "late body", "compressed", "generate", "generate_stream"],
)
def test_a_client_that_leaves_is_counted_and_its_request_taken_back(server, connection, endpoint, body, header, pieces):
    before = _metric(connection, CANCELLED)
    counted = f'trilith_oip_requests_total{{endpoint="{endpoint}",method="POST",protocol="http",status="499"}}'
    ended = _metric(connection, counted)
    host, port = server.http.split(":")
    head = f"POST /v2/models/slower/{endpoint} HTTP/1.1\r\nhost: x\r\n{header}content-length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        cut = len(body) // pieces
        raw.sendall(head.encode() + body[:cut])
        raw.sendall(body[cut:])
        wait_until(lambda: _metric(connection, 'trilith_oip_requests_in_flight{protocol="http"}') == 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: _metric(connection, CANCELLED) == before + 1)
    assert _metric(connection, counted) == ended + 1


def test_a_cancelled_call_is_counted_and_its_request_taken_back(server, connection):
    before = _metric(connection, CANCELLED)
    message = service_messages().ModelInferRequest(model_name="slower", raw_input_contents=[bytes(4)])
    message.inputs.add(name="INPUT0", datatype="FP32", shape=[1])
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer").future(message.SerializeToString())
        wait_until(lambda: _metric(connection, 'trilith_oip_requests_in_flight{protocol="grpc"}') == 1)
        call.cancel()
        wait_until(lambda: _metric(connection, CANCELLED) == before + 1)


@pytest.mark.parametrize(
    ("method", "message", "code"),
    [
        ("ModelInfer", b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ("ModelInfer", b"", grpc.StatusCode.NOT_FOUND),
        ("ModelMetadata", b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ("Nothing", b"", grpc.StatusCode.UNIMPLEMENTED),
        ("TraceSetting", b"", grpc.StatusCode.UNIMPLEMENTED),
    ],
)
def test_malformed_grpc(server, method, message, code):
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        with pytest.raises(grpc.RpcError) as raised:
            call(message, timeout=10)
        assert raised.value.code() is code
        assert raised.value.details()
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        assert tritonclient.grpc.service_pb2.ServerLiveResponse.FromString(live(b"", timeout=10)).live


def test_the_timeline_in_grpc(server):
    request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="batched", raw_input_contents=[b"\0" * 16])
    request.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 4])
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        _, answered = call.with_call(request.SerializeToString(), timeout=10, metadata=[("trilith-timeline", "1")])
        trailers = dict(answered.trailing_metadata())
    assert json.loads(trailers["trilith-timeline"])[0] == "gateway"
