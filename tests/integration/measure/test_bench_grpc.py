"""gRPC targets: a server of Google's own library, one that says goodbye, and one that is none."""

import asyncio
import json
import threading
from concurrent import futures

import grpc
import pytest
import uvloop
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

from trilith.cli.bench import bench
from trilith.errors import InvalidConfig, SetupError
from trilith.measure import SubjectSpec, subject
from trilith.measure.load import LoadPlan, OpenLoop
from trilith.measure.load.closed_loop import ClosedLoop
from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ErrorCode

PROTO = """
syntax = "proto3";
package demo;
import "google/protobuf/duration.proto";
message Ask { int32 n = 1; bytes blob = 2; google.protobuf.Duration wait = 3; }
message Told { int32 n = 1; int32 size = 2; }
service Demo {
  rpc Once (Ask) returns (Told);
  rpc Count (Ask) returns (stream Told);
  rpc Sum (stream Ask) returns (Told);
  rpc Fail (Ask) returns (Told);
}
"""


def demo_pool():
    """The descriptors of PROTO, made by hand: the server needs no compiler."""
    from google.protobuf import duration_pb2

    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="demo.proto", package="demo", syntax="proto3")
    file.dependency.append("google/protobuf/duration.proto")
    ask, told = file.message_type.add(name="Ask"), file.message_type.add(name="Told")
    ask.field.add(name="n", number=1, type=types.TYPE_INT32, label=1)
    ask.field.add(name="blob", number=2, type=types.TYPE_BYTES, label=1)
    ask.field.add(name="wait", number=3, type=types.TYPE_MESSAGE, type_name=".google.protobuf.Duration", label=1)
    told.field.add(name="n", number=1, type=types.TYPE_INT32, label=1)
    told.field.add(name="size", number=2, type=types.TYPE_INT32, label=1)
    service = file.service.add(name="Demo")
    for name, ups, downs in (("Once", 0, 0), ("Count", 0, 1), ("Sum", 1, 0), ("Fail", 0, 0)):
        service.method.add(
            name=name, input_type=".demo.Ask", output_type=".demo.Told", client_streaming=ups, server_streaming=downs
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return pool


@pytest.fixture(scope="module")
def demo():
    pool = demo_pool()
    ask = message_factory.GetMessageClass(pool.FindMessageTypeByName("demo.Ask"))
    told = message_factory.GetMessageClass(pool.FindMessageTypeByName("demo.Told"))

    def once(request, context):
        return told(n=request.n, size=len(request.blob))

    def count(request, context):
        for number in range(request.n):
            yield told(n=number)

    def add(requests, context):
        return told(n=sum(request.n for request in requests))

    def fail(request, context):
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room")

    kinds = {"request_deserializer": ask.FromString, "response_serializer": told.SerializeToString}
    handlers = {
        "Once": grpc.unary_unary_rpc_method_handler(once, **kinds),
        "Count": grpc.unary_stream_rpc_method_handler(count, **kinds),
        "Sum": grpc.stream_unary_rpc_method_handler(add, **kinds),
        "Fail": grpc.unary_unary_rpc_method_handler(fail, **kinds),
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Demo", handlers),))
    reflection.enable_server_reflection(("demo.Demo", reflection.SERVICE_NAME), server, pool=pool)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}"
    server.stop(None).wait()


def run_load(spec, **plan):
    found = subject(spec)

    async def main():
        loop_type = OpenLoop if "due" in plan else ClosedLoop
        return await loop_type(
            LoadPlan(traffic=(found.traffic,), **({"concurrency": 4, "duration_s": 0.3} | plan))
        ).run()

    return uvloop.run(main()).recorder


def test_a_method_is_asked_for_and_called(demo, tmp_path):
    report = tmp_path / "report.json"
    code = bench(f"{demo}/demo.Demo/Once", data=('{"n": 3, "wait": "1.5s"}',), concurrency="3", duration="300ms",
                 warmup="50ms", json=report)  # fmt: skip
    assert code == 0
    told = json.loads(report.read_bytes())
    assert told["method"] == "gRPC"
    (level,) = told["levels"]
    assert level["latency"]["count"] > 5
    assert not level["errors"]


def test_items_of_a_stream_are_counted(demo):
    recorder = run_load(SubjectSpec(url=f"{demo}/demo.Demo/Count", data=('{"n": 7}',)))
    assert recorder.latencies.count > 3
    stream = recorder.stream
    # Of an answer that was begun in the warm-up, or not ended, only a part is in the measurement.
    assert abs(stream.first_item.count - recorder.latencies.count) <= 8
    assert abs(stream.items - 7 * recorder.latencies.count) <= 8 * 7
    assert abs(stream.between.count + stream.first_item.count - stream.items) <= 8 * 7


def test_a_stream_of_requests_is_an_array(demo):
    recorder = run_load(SubjectSpec(url=f"{demo}/demo.Demo/Sum", data=('[{"n": 1}, {"n": 2}]',)))
    assert recorder.latencies.count > 3
    assert not recorder.errors


def test_a_request_larger_than_every_window_arrives_whole(demo, tmp_path):
    data = tmp_path / "large.json"
    data.write_text(json.dumps({"blob": "QUJD" * 300_000}))
    recorder = run_load(SubjectSpec(url=f"{demo}/demo.Demo/Once", data=(str(data),)), duration_s=1.0)
    assert recorder.latencies.count > 1
    assert not recorder.errors


def test_failures_have_the_words_of_grpc(demo):
    recorder = run_load(SubjectSpec(url=f"{demo}/demo.Demo/Fail"))
    assert set(recorder.errors) == {"grpc-status 8 (RESOURCE_EXHAUSTED)"}


def test_an_open_loop_over_grpc(demo):
    due = lambda: (number / 100 for number in range(10_000))  # noqa: E731
    recorder = run_load(SubjectSpec(url=f"{demo}/demo.Demo/Once"), due=due, rate_per_s=100.0, timeout_s=20.0)
    assert recorder.latencies.count == recorder.offered >= 29
    assert not recorder.errors


def test_a_proto_file_instead_of_reflection(demo, tmp_path):
    proto = tmp_path / "demo.proto"
    proto.write_text(PROTO)
    assert run_load(SubjectSpec(url=f"{demo}/demo.Demo/Once", proto=proto, data=('{"n": 1}',))).latencies.count > 3
    with pytest.raises(InvalidConfig, match=r"no service 'demo.Other'"):
        subject(SubjectSpec(url=f"{demo}/demo.Other/Once", proto=proto))


@pytest.mark.parametrize(
    ("place", "data", "error", "said"),
    [
        ("", "", InvalidConfig, r"no method is named.*demo\.Demo"),
        ("/demo.Other/Once", "", InvalidConfig, r"no service 'demo.Other'.*demo\.Demo"),
        ("/demo.Demo/Twice", "", InvalidConfig, "has no method 'Twice'; it has: Once, Count, Sum, Fail"),
        ("/demo.Demo/Once", '{"m": 1}', InvalidConfig, r"fields: n, blob, wait"),
        ("/demo.Demo/Once", '{"n": ', InvalidConfig, "expected JSON of a demo.Ask"),
        ("/demo.Demo/Once", "[1]", InvalidConfig, "expected JSON of a demo.Ask"),
    ],
)
def test_what_does_not_fit_is_told_before_the_load(demo, place, data, error, said):
    with pytest.raises(error, match=said):
        subject(SubjectSpec(url=demo + place, data=(data,) if data else ()))


class GoesAway(asyncio.Protocol):
    """Greets, takes `allowed` calls on each connection, answers them after a GOAWAY, and takes no more."""

    allowed = 3
    connections = 0

    def connection_made(self, transport):
        GoesAway.connections += 1
        self.transport = transport
        self.buffer = b""
        self.begun = []
        transport.write(frames.settings_frame([(3, 100)]))

    def data_received(self, data):
        self.buffer += data
        self.buffer = self.buffer.removeprefix(frames.PREFACE)
        while len(self.buffer) >= 9:
            high, low, kind, flags, stream = frames.FRAME_HEAD.unpack_from(self.buffer)
            size = 9 + (high << 16 | low)
            if len(self.buffer) < size:
                return
            self.buffer = self.buffer[size:]
            if kind == frames.DATA and flags & frames.END_STREAM:
                self.begun.append(stream)
                if len(self.begun) == self.allowed:
                    self.transport.write(frames.go_away_frame(stream, ErrorCode.NO_ERROR))
                if len(self.begun) <= self.allowed:
                    status = b"\x88\x00\x0bgrpc-status\x010"
                    head = frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, status)
                    self.transport.write(head)


def test_a_server_that_goes_away_fails_only_what_it_refuses():
    from trilith.measure.load import Traffic
    from trilith.measure.load.grpc_station import GrpcStation
    from trilith.measure.load.grpc_target import GrpcTarget, prepare_grpc

    async def main():
        server = await asyncio.get_running_loop().create_server(GoesAway, "127.0.0.1", 0)
        target = GrpcTarget.parse(f"grpc://127.0.0.1:{server.sockets[0].getsockname()[1]}/a.B/C")
        traffic = Traffic(
            make_station=lambda number: GrpcStation(number, target, timeout_s=5), requests=[prepare_grpc(target, [b""])]
        )
        outcome = await ClosedLoop(LoadPlan(traffic=(traffic,), concurrency=2, duration_s=0.5)).run()
        server.close()
        return outcome.recorder

    recorder = uvloop.run(main())
    assert recorder.latencies.count >= 3
    assert GoesAway.connections >= 2
    assert set(recorder.errors) <= {"refused by a server that goes away"}


def test_a_server_that_speaks_http_1_is_told():
    async def serve(started, stop):
        async def answer(reader, writer):
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        started.set_result(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(stop.wait, 20)
        server.close()

    started, stop = futures.Future(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve(started, stop)))
    thread.start()
    try:
        with pytest.raises(SetupError, match=r"no gRPC answer.*grpcs"):
            subject(SubjectSpec(url=f"grpc://127.0.0.1:{started.result(10)}/a.B/C"))
    finally:
        stop.set()
        thread.join(10)


def test_nobody_listens():
    with pytest.raises(SetupError, match="connection refused"):
        subject(SubjectSpec(url="grpc://127.0.0.1:1/a.B/C"))
