"""What the layer of HTTP/2 gives a whole server: REST over it, health, reflection, compression, counted refusals."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

MODEL = """
backend: "identity" max_batch_size: 0
input { name: "INPUT0" data_type: TYPE_FP32 dims: [-1] } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }
"""


@pytest.fixture
def server(serve, tmp_path):
    folder = tmp_path / "models" / "same"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(MODEL)
    return serve(tmp_path / "models")


def raw(port, octets):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(octets)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
        return answer


def test_health_reflection_and_compression(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "same", "same/1"):
            assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20).status == 1
        services = list(ProtoReflectionDescriptorDatabase(channel).get_services())
        assert "inference.GRPCInferenceService" in services
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watch).status == 1
        sent = np.zeros(1_000_000, np.float32)
        with triton.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
            tensor = triton.InferInput("INPUT0", list(sent.shape), "FP32")
            tensor.set_data_from_numpy(sent)
            for algorithm in ("gzip", "deflate", None):
                answer = client.infer("same", [tensor], compression_algorithm=algorithm, client_timeout=20)
                assert np.array_equal(answer.as_numpy("OUTPUT0"), sent)
        server.process.terminate()  # while somebody watches
        assert [answer.status for answer in _until_the_end(watch)] == [2]
    assert server.process.wait(20) == 0


def _until_the_end(watch):
    try:
        yield from watch
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017 - it comes after what was yielded


def test_refusals_of_the_grpc_port_are_in_the_metrics(server):
    assert b"gRPC" in raw(server.grpc, b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
    raw(server.grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\xff\xff\xff\0\0\0\0\0\1")
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        with pytest.raises(grpc.RpcError):
            channel.stream_unary("/inference.GRPCInferenceService/ServerLive")(iter([]), timeout=20)
        call = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        with pytest.raises(grpc.RpcError):
            call(bytes(65 << 20), compression=grpc.Compression.Gzip, timeout=20)
    lines = server.get("/metrics", port=server.metrics)[1].decode().splitlines()
    refused = [line for line in lines if line.startswith('trilith_refused_total{protocol="grpc"')]
    found = {line.split('reason="')[1].split('"')[0]: float(line.split()[-1]) for line in refused}
    assert found == {"http1": 1, "frame_size": 1, "no_message": 1, "message_size": 1}


@pytest.mark.peer
def test_rest_over_http2(server):
    if shutil.which("curl") is None and not os.environ.get("CI"):
        pytest.skip("curl is not installed")

    def curl(*options):
        command = ["curl", "-sS", "--http2-prior-knowledge", "-w", " %{http_version} %{http_code}", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    url = f"http://127.0.0.1:{server.http}"
    assert curl(f"{url}/v2/health/ready").endswith(" 2 200")
    body = '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[2],"data":[1.5,2]}]}'
    answer = curl("-d", body, f"{url}/v2/models/same/infer")
    assert '"data":[1.5,2.0]' in answer
    assert answer.endswith(" 2 200")
    assert curl(f"{url}/nothing").endswith(" 2 404")
    assert curl(f"{url}/metrics").endswith(" 2 200")
