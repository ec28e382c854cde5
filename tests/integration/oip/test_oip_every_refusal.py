"""Whatever refuses a request under `/v2`, and at whichever layer: `error` is text, as Triton's clients read it."""

import contextlib
import json
import socket

import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from oip_server import MAX_BODY_BYTES, OipServer, write_models
from tritonclient.utils import InferenceServerException

from trilith.wire.oip_options import ProtocolOptions

INFER = "POST /v2/models/batched/infer HTTP/1.1\r\n"
SOCKET = "Connection: upgrade\r\nUpgrade: websocket\r\n"
HOST = "Host: x\r\n"
CASES = {
    "too long by its length": (413, f"{INFER}{HOST}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"),
    "too long as it comes": (413, f"{INFER}{HOST}Transfer-Encoding: chunked\r\n\r\n" + "900000\r\n" + "x" * 0x900000),
    "path too long": (414, f"GET /v2/{'x' * 20_000} HTTP/1.1\r\n{HOST}\r\n"),
    "too many headers": (431, f"{INFER}{HOST}" + "a: b\r\n" * 200 + "\r\n"),
    "headers too long": (431, f"{INFER}{HOST}a: {'x' * 70_000}\r\n\r\n"),
    "expectation": (417, f"{INFER}{HOST}Expect: miracles\r\n\r\n"),
    "no host": (400, f"{INFER}\r\n"),
    "two lengths": (400, f"{INFER}{HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    "transfer coding": (501, f"{INFER}{HOST}Transfer-Encoding: gzip\r\n\r\n"),
    "upgrade": (501, f"GET /v2 HTTP/1.1\r\n{HOST}Connection: upgrade\r\nUpgrade: gopher\r\n\r\n"),
    "websocket_version": (426, f"GET /v2 HTTP/1.1\r\n{HOST}{SOCKET}\r\n"),
    "websocket_key": (400, f"GET /v2 HTTP/1.1\r\n{HOST}{SOCKET}Sec-WebSocket-Version: 13\r\n\r\n"),
    "garbage": (400, "GET /v2 HTTP/1.1\r\nno colon\r\n\r\n"),
    "version": (505, f"GET /v2 HTTP/0.9\r\n{HOST}\r\n"),
    "absolute form": (413, f"POST http://x/v2 HTTP/1.1\r\n{HOST}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"),
    "no such path": (404, f"GET /v2/nothing HTTP/1.1\r\n{HOST}\r\n"),
    "no such model": (404, f"GET /v2/models/nothing HTTP/1.1\r\n{HOST}\r\n"),
    "method": (405, f"GET /v2/models/batched/infer HTTP/1.1\r\n{HOST}\r\n"),
    "no JSON": (400, f"{INFER}{HOST}Content-Length: 1\r\n\r\n["),
    "coding": (415, f"{INFER}{HOST}Content-Encoding: br\r\nContent-Length: 1\r\n\r\n["),
    "switched off": (501, f"POST /v2/systemsharedmemory/region/r/register HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n"),
    "broken gzip": (400, f"{INFER}{HOST}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n[]"),
}
COMPAT = {413: 400, 415: 400}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write_models(root)
    return root


@pytest.fixture(scope="module", params=[False, True], ids=["trilith", "triton"])
def served(request, models):
    with OipServer().running(models, ProtocolOptions(compat=request.param)) as running:
        yield running, request.param


def exchanged(address, text):
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):  # it is answered before the end
            connection.sendall(text.encode())
        file = connection.makefile("rb")
        status = int(file.readline().split()[1])
        while status == 100:
            file.readline()
            status = int(file.readline().split()[1])
        length = 0
        while (line := file.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, json.loads(file.read(length))


@pytest.mark.parametrize("case", CASES)
def test_every_refusal_has_text(served, case):
    server, compat = served
    expected, text = CASES[case]
    status, body = exchanged(server.http, text)
    assert status == (COMPAT.get(expected, expected) if compat else expected)
    assert isinstance(body["error"], str)
    assert body["error"]
    if expected == 413:
        assert "exceeds the maximum allowed input size" in body["error"]
        assert "Use --http-max-input-size to increase the limit" in body["error"]
        assert ("--max-body-mb" in body["error"]) == (not compat)


def test_compat_names_the_sizes_as_triton_does(served):
    server, compat = served
    if compat:
        assert exchanged(server.http, CASES["too long by its length"][1])[1]["error"] == (
            f"request JSON size of {MAX_BODY_BYTES + 1} bytes exceeds the maximum allowed input size of "
            f"{MAX_BODY_BYTES} bytes. Use --http-max-input-size to increase the limit."
        )


def test_tritonclient_raises_its_own_error_for_a_body_that_is_too_long(served):
    server, compat = served
    values = np.zeros((8, MAX_BODY_BYTES // 16), np.float32)
    tensor = tritonclient.http.InferInput("INPUT0", values.shape, "FP32")
    tensor.set_data_from_numpy(values)
    with tritonclient.http.InferenceServerClient(server.http) as client:
        with pytest.raises(InferenceServerException, match="exceeds the maximum allowed input size") as raised:
            client.infer("batched", [tensor])
        assert raised.value.status() == ("400" if compat else "413")


def test_over_http2_too(served):
    server, _ = served
    with httpx.Client(http1=False, http2=True, trust_env=False) as client:
        answer = client.get(f"http://{server.http}/v2/{'x' * 20_000}")
    assert (answer.status_code, answer.http_version) == (414, "HTTP/2")
    assert isinstance(answer.json()["error"], str)


def test_grpc_names_the_option_that_there_is(served):
    server, _ = served
    tensor = tritonclient.grpc.InferInput("INPUT0", [8, MAX_BODY_BYTES // 16], "FP32")
    tensor.set_data_from_numpy(np.zeros((8, MAX_BODY_BYTES // 16), np.float32))
    expected = pytest.raises(InferenceServerException, match=r"over the limit of 8388608 \(--max-body-mb\)")
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client, expected:
        client.infer("batched", [tensor])
