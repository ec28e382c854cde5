"""Services over gRPC, as clients see them: grpcio against a served application."""

import contextlib
import os
import socket

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from live_server import APPS, Server, environment

from trilith.service.proto.compiler import read_file
from trilith.wire.grpc_descriptors import read_descriptor_set

POOL, _ = read_descriptor_set(read_file(APPS / "rpc.proto", APPS, "test"))
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(scope="module")
def rpc(tmp_path_factory):
    """One server of `apps/rpc.py` for all tests that do no harm."""
    folder = tmp_path_factory.mktemp("run")
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    given = {**environment(folder), "RPC_MARKS": str(folder / "marks")}
    server = Server([f"{APPS}/rpc.py:Calls", *ports, "--max-body-mb", "1"], given)
    server.marks = folder / "marks"
    yield server.wait_ready()
    server.close()


@contextlib.contextmanager
def channel(server):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}", options=options) as found:
        yield found


def method(found, name, *, service="calls.v1.Calls", pool=POOL):
    declared = pool.FindServiceByName(service).methods_by_name[name]
    asked, answered = GetMessageClass(declared.input_type), GetMessageClass(declared.output_type)
    call = found.unary_unary(
        f"/{service}/{name}", request_serializer=asked.SerializeToString, response_deserializer=answered.FromString
    )
    return lambda timeout=20, metadata=None, **fields: call(asked(**fields), timeout=timeout, metadata=metadata)


def status(work):
    with pytest.raises(grpc.RpcError) as caught:
        work()
    return caught.value.code().name, caught.value.details()


def test_a_call_goes_there_and_back(rpc):
    with channel(rpc) as found:
        assert list(method(found, "Echo")(x=[1.0, 2.5]).x) == [1.0, 2.5]
        assert method(found, "Ask")(word="quiet").word == "QUIET"
        assert len(method(found, "Blob")(size=3 << 20).data) == 3 << 20


def test_metadata_and_the_deadline_are_the_calls_circumstances(rpc):
    metadata = [("x-request-id", "r-17"), ("authorization", "Bearer x"), ("token-bin", b"\0\1")]
    with channel(rpc) as found:
        told = method(found, "Who")(timeout=5, metadata=metadata)
    assert told.request_id == "r-17"
    assert told.headers["authorization"] == "Bearer x"
    assert told.headers["token-bin"].rstrip("=") == "AAE"
    assert "grpc-timeout" not in told.headers
    assert 0 < told.left_s <= 5


def test_headers_that_a_method_sets_are_trailing_metadata(rpc):
    asked = GetMessageClass(POOL.FindMessageTypeByName("calls.v1.Word"))
    with channel(rpc) as found:
        call = found.unary_unary("/calls.v1.Calls/Who")
        _, done = call.with_call(asked(word="blue").SerializeToString(), timeout=20)
        assert ("x-room", "blue") in done.trailing_metadata()
        assert "set-cookie" not in dict(done.trailing_metadata())
        assert status(lambda: call(asked(word="bl\u00fc").SerializeToString(), timeout=20))[0] == "INTERNAL"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("invalid_input", "INVALID_ARGUMENT"),
        ("not_found", "NOT_FOUND"),
        ("queue_full", "RESOURCE_EXHAUSTED"),
        ("no_ready_replica", "UNAVAILABLE"),
        ("forbidden", "PERMISSION_DENIED"),
        ("model_failed", "INTERNAL"),
    ],
)
def test_errors_are_statuses(rpc, code, expected):
    with channel(rpc) as found:
        assert status(lambda: method(found, "Fail")(word=code)) == (expected, f"it is {code}")


def test_what_a_method_raises_is_not_told(rpc):
    with channel(rpc) as found:
        name, details = status(lambda: method(found, "Fail")(word="secret"))
    assert name == "INTERNAL"
    assert "request id" in details
    assert "secret" not in details
    assert "ValueError: secret" in rpc.output


def test_what_is_no_message(rpc):
    with channel(rpc) as found:
        raw = found.unary_unary("/calls.v1.Calls/Echo")
        assert status(lambda: raw(b"\xff\xff")) == (
            "INVALID_ARGUMENT",
            "Calls.echo: the message is no calls.v1.Numbers: Error parsing message with type 'calls.v1.Numbers'",
        )
        assert status(lambda: raw(bytes(2 << 20)))[0] == "RESOURCE_EXHAUSTED"


def test_what_there_is_not(rpc):
    with channel(rpc) as found:
        name, details = status(lambda: found.unary_unary("/calls.v1.Calls/Absent")(b""))
        assert name == "UNIMPLEMENTED"
        assert "calls.v1.Calls" in details
        assert status(lambda: found.unary_unary("/shout.Shout/Shout")(b""))[0] == "UNIMPLEMENTED", "not the root"


def test_a_deadline_ends_the_call_and_the_work(rpc):
    rpc.marks.unlink(missing_ok=True)
    with channel(rpc) as found:
        assert status(lambda: method(found, "Sleep")(seconds=30.0, timeout=0.3))[0] == "DEADLINE_EXCEEDED"
    rpc.wait_until(rpc.marks.exists)


def test_a_client_that_goes_ends_the_work(rpc):
    rpc.marks.unlink(missing_ok=True)
    asked = GetMessageClass(POOL.FindMessageTypeByName("calls.v1.Seconds"))
    with channel(rpc) as found:
        call = found.unary_unary("/calls.v1.Calls/Sleep").future(asked(seconds=30.0).SerializeToString(), timeout=20)
        rpc.wait_until(lambda: rpc.status()["services"][0]["in_flight"] == 1)
        call.cancel()
        rpc.wait_until(rpc.marks.exists)


def test_answers_are_compressed_where_that_is_asked_for(rpc):
    with grpc.insecure_channel(f"127.0.0.1:{rpc.grpc}", compression=grpc.Compression.Gzip) as found:
        assert list(method(found, "Echo")(x=[0.0] * 1000).x) == [0.0] * 1000, "compressed requests are read"


def test_the_timeline_of_a_call(rpc):
    asked = GetMessageClass(POOL.FindMessageTypeByName("calls.v1.Word"))
    with channel(rpc) as found:
        metadata = [("trilith-timeline", "1")]
        call = found.unary_unary("/calls.v1.Calls/Ask")
        _, done = call.with_call(asked(word="a").SerializeToString(), metadata=metadata, timeout=20)
    [timeline] = [value for name, value in done.trailing_metadata() if name == "trilith-timeline"]
    assert "service Calls.ask" in timeline
    assert "service Shout.shout" in timeline


def test_http_beside_it(rpc):
    assert rpc.post("/echo", {"x": [1.0]}) == (200, [1.0])
    answer = rpc.post("/echo", body=b"", headers={"content-type": "application/grpc+proto"})
    assert answer[0] == 415


def test_health_and_reflection_know_the_service(rpc):
    with channel(rpc) as found:
        health = health_pb2_grpc.HealthStub(found)
        for name in ("", "calls.v1.Calls", "inference.GRPCInferenceService"):
            assert health.Check(health_pb2.HealthCheckRequest(service=name)).status == SERVING
        assert status(lambda: health.Check(health_pb2.HealthCheckRequest(service="shout.Shout")))[0] == "NOT_FOUND"
        reflected = ProtoReflectionDescriptorDatabase(found)
        assert {"calls.v1.Calls", "inference.GRPCInferenceService"} <= set(reflected.get_services())
        pool = DescriptorPool(reflected)
        assert list(method(found, "Echo", pool=pool)(x=[2.0]).x) == [2.0], "as grpcurl does"


def test_metrics_count_calls_of_both_protocols(rpc):
    with channel(rpc) as found:
        method(found, "Echo")(x=[1.0])
    _, text = rpc.get("/metrics")
    assert b'trilith_service_calls_total{method="echo",outcome="ok",service="Calls"}' in text


def test_a_service_without_a_file_is_offered_as_its_annotations_say(calls):
    with channel(calls) as found:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(found))
        echoed = method(found, "Echo", service="calls.Calls", pool=pool)(x=[1.0, 2.0])
        assert list(echoed.result) == [1.0, 2.0]
        doubled = method(found, "Doubled", service="calls.Calls", pool=pool)(x=[1.0, 2.0])
        assert list(doubled.result) == [2.0, 4.0]
        blob = method(found, "Blob", service="calls.Calls", pool=pool)(size=100_000)
        assert blob.result == b"x" * 100_000
        name, details = status(lambda: method(found, "OwnError", service="calls.Calls", pool=pool)())
        assert (name, details) == ("INVALID_ARGUMENT", "no shoes inside")


def test_a_replica_that_dies_with_a_call(serve):
    server = serve(f"{APPS}/rpc.py:Calls")
    with channel(server) as found:
        pid = method(found, "Pid")
        before = pid(word="").size
        name, details = status(lambda: pid(word="die"))
        assert name == "UNAVAILABLE"
        assert "Calls.pid" in details
        health = health_pb2_grpc.HealthStub(found)
        watched = health.Watch(health_pb2.HealthCheckRequest(service="calls.v1.Calls"), timeout=30)
        for told in watched:
            if told.status == SERVING:
                break
        watched.cancel()
        assert pid(word="").size not in (before, os.getpid())


def test_a_proto_that_does_not_fit_ends_the_start(serve, tmp_path):
    (tmp_path / "rpc.proto").write_text(
        (APPS / "rpc.proto").read_text().replace("repeated double x", "repeated string x")
    )
    (tmp_path / "rpc.py").write_text((APPS / "rpc.py").read_text())
    server = serve(f"{tmp_path}/rpc.py:Calls", ready=False)
    server.wait_line(
        "the field `x` of calls.v1.Numbers is repeated string, and parameter `x` of Calls.echo is list[float]"
    )
    assert server.process.wait(20) != 0


def test_a_call_before_the_application_is_there_is_asked_to_come_again(serve, tmp_path):
    (tmp_path / "late.py").write_text(
        "import pathlib, time, trilith\n\n"
        "while not pathlib.Path(__file__).with_name('go').exists():\n    time.sleep(0.02)\n\n\n"
        "@trilith.service\ndef echo(x: int) -> int:\n    return x\n"
    )
    server = serve(f"{tmp_path}/late.py:echo", "--grpc-port", str(port := free_port()), ready=False)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as found:
        call = found.unary_unary("/echo.Echo/Echo")

        def asked() -> str:
            try:
                call(b"\x08\x05", timeout=20)
            except grpc.RpcError as error:
                return error.details()
            return "answered"

        server.wait_until(lambda: "not loaded yet" in asked())
        (tmp_path / "go").touch()
        server.wait_until(lambda: asked() == "answered")


PROTO = (
    'syntax = "proto3"; package p; service P {{ rpc Ask(Q) returns (A); }} message Q {{ {} }} '
    "message A {{ string a = 1; }}"
)


def test_a_changed_proto_is_served_by_reload_and_one_that_does_not_fit_is_not(serve, tmp_path):
    proto, app = tmp_path / "p.proto", tmp_path / "app.py"
    proto.write_text(PROTO.format("string q = 1;"))
    app.write_text(
        'import trilith\n\n\n@trilith.service(proto="p.proto")\nclass P:\n    @trilith.api\n'
        "    async def ask(self, q: str) -> str:\n        return q\n"
    )
    server = serve(f"{app}:P", "--reload")
    server.wait_line("watching")
    with channel(server) as found:
        call = found.unary_unary("/p.P/Ask")
        assert call(b"\x0a\x01x", timeout=20) == b"\x0a\x01x"
        proto.write_text(PROTO.format("int32 q = 1;"))
        server.wait_line("the field `q` of p.Q is int32, and parameter `q` of P.ask is str")
        assert call(b"\x0a\x01x", timeout=20) == b"\x0a\x01x", "what served goes on"
        proto.write_text(PROTO.format("string q = 2;"))
        server.wait_until(lambda: call(b"\x12\x01x", timeout=20) == b"\x0a\x01x")


def test_several_services_of_one_application_have_files_of_their_own(serve, tmp_path):
    (tmp_path / "two.proto").write_text(
        'syntax = "proto3"; package two; message Text { string text = 1; }\n'
        "service First { rpc Say(Text) returns (Text); } service Second { rpc Say(Text) returns (Text); }\n"
    )
    (tmp_path / "two.py").write_text(
        "import trilith\n\n\n"
        '@trilith.service(proto="two.proto", rpc="two.Second")\nclass Second:\n    @trilith.api\n'
        "    async def say(self, text: str) -> str:\n        return text.upper()\n\n\n"
        '@trilith.service(proto="two.proto", rpc="two.First")\nclass First:\n    second = trilith.depends(Second)\n\n'
        "    @trilith.api\n    async def say(self, text: str) -> str:\n"
        "        return await self.second.say(text) + '!'\n"
    )
    server = serve(f"{tmp_path}/two.py:First")
    with channel(server) as found:
        assert found.unary_unary("/two.First/Say")(b"\x0a\x01x", timeout=20) == b"\x0a\x02X!"
        assert found.unary_unary("/two.Second/Say")(b"\x0a\x01x", timeout=20) == b"\x0a\x01X"
        assert {"two.First", "two.Second"} <= set(ProtoReflectionDescriptorDatabase(found).get_services())
        check = health_pb2_grpc.HealthStub(found).Check
        assert check(health_pb2.HealthCheckRequest(service="two.Second"), timeout=20).status == SERVING


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
