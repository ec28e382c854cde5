"""Against grpcio, blocking: what most clients are."""

import concurrent.futures
import json

import grpc
import pytest

from trilith.net.grpc import GrpcCompression, GrpcLimits
from trilith.wire.grpc_status import GrpcStatus


def error_of(call, *arguments, **options):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    return caught.value.code(), caught.value.details()


@pytest.mark.parametrize("method", ["Echo", "Later", "Task"])
def test_each_way_of_answering(serve, connect, method):
    channel = connect(serve().target)
    call = channel.unary_unary(f"/test.Service/{method}")
    assert call(b"hello") == b"hello"
    assert call(b"") == b""


@pytest.mark.parametrize("size", [1, 16_384 - 5, 16_384, 65_535, 1_000_000, 64 << 20])
def test_messages_of_all_sizes_both_ways(serve, connect, size):
    message = b"x" * size
    assert connect(serve().target).unary_unary("/s/Echo")(message, timeout=30) == message


def test_500_at_once(serve, connect):
    server = serve()
    call = connect(server.target).unary_unary("/s/Later")
    futures = [call.future(b"%d" % number) for number in range(500)]
    assert [future.result(20) for future in futures] == [b"%d" % number for number in range(500)]
    assert server.statistics.outcomes == {GrpcStatus.OK: 500}


def test_streams_over_the_limit_wait_at_the_client(serve, connect):
    server = serve(limits=GrpcLimits(max_concurrent_streams=3))
    call = connect(server.target).unary_unary("/s/Later")
    futures = [call.future(b"%d" % number) for number in range(50)]
    assert [future.result(20) for future in futures] == [b"%d" % number for number in range(50)]


def test_large_messages_do_not_mix(serve, connect):
    call = connect(serve().target).unary_unary("/s/Echo")
    messages = [bytes([number]) * 3_000_000 for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda message: call(message, timeout=30), messages)) == messages


def test_statuses(serve, connect, caplog):
    server = serve()
    channel = connect(server.target)
    status = grpc.StatusCode
    assert error_of(channel.unary_unary("/s/Nope"), b"") == (status.NOT_FOUND, "no method nope")
    assert error_of(channel.unary_unary("/s/Full"), b"")[0] is status.RESOURCE_EXHAUSTED
    assert error_of(channel.unary_unary("/s/Denied"), b"") == (status.PERMISSION_DENIED, "not for you: é %")
    for method in ("Boom", "BoomLater", "Silent"):
        code, details = error_of(channel.unary_unary(f"/s/{method}"), b"", metadata=[("x-request-id", "abc-1")])
        assert (code, details) == (status.INTERNAL, "internal error, request id abc-1")
    assert "secret detail" in caplog.text
    assert "ended without an answer" in caplog.text
    assert channel.unary_unary("/s/Twice")(b"") == b"first"
    assert "answered twice" in caplog.text
    assert server.statistics.outcomes[GrpcStatus.INTERNAL] == 3


def test_metadata_both_ways(serve, connect):
    channel = connect(serve().target)
    sent = [("x-key", "1"), ("x-key", "2"), ("x-data-bin", b"\x00\x01\xff")]
    seen = json.loads(channel.unary_unary("/s/Metadata")(b"", metadata=sent))
    assert [pair for pair in seen if pair[0].startswith("x-")] == [
        ["x-key", "1"],
        ["x-key", "2"],
        ["x-data-bin", "AAH/"],
    ]
    _, call = channel.unary_unary("/s/Task").with_call(b"")
    assert ("x-served-by", "task") in call.trailing_metadata()
    assert ("x-raw-bin", b"\x00\x01\x02") in call.trailing_metadata()


def test_changing_metadata_is_never_mixed_up(serve, connect):
    call = connect(serve().target).unary_unary("/s/Metadata")
    for number in range(200):
        pairs = [("x-trace", f"{number % 7}"), ("x-unique", f"{number}"), ("x-same", "same")]
        seen = json.loads(call(b"", metadata=pairs[: 1 + number % 3]))
        assert [tuple(pair) for pair in seen if pair[0].startswith("x-")] == pairs[: 1 + number % 3]


def test_deadline(serve, connect):
    server = serve()
    channel = connect(server.target)
    assert channel.unary_unary("/s/Deadline")(b"") == b"none"
    assert 40 < float(channel.unary_unary("/s/Deadline")(b"", timeout=50)) < 60  # grpcio rounds it up
    assert error_of(channel.unary_unary("/s/Sleep"), b"", timeout=0.1)[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.app.cancelled.wait(5)
    assert channel.unary_unary("/s/Echo")(b"still there", timeout=5) == b"still there"


@pytest.mark.parametrize("method", ["Sleep", "Hold"])
def test_cancel_reaches_the_handler(serve, connect, method):
    server = serve()
    future = connect(server.target).unary_unary(f"/s/{method}").future(b"")
    assert server.app.started.wait(5)
    future.cancel()
    assert server.app.cancelled.wait(5)
    if method == "Hold":
        [call] = server.app.waiting
        server.call_soon(call.reply, b"too late, and ignored")
        assert call.cancelled
    assert server.statistics.outcomes == {GrpcStatus.CANCELLED: 1}
    assert server.statistics.in_flight == 0


def test_a_closed_channel_cancels_all(serve, connect):
    server = serve()
    channel = connect(server.target)
    futures = [channel.unary_unary("/s/Sleep").future(b""), channel.unary_unary("/s/Sleep").future(b"")]
    assert server.app.started.wait(5)
    channel.close()
    assert server.app.cancelled.wait(5)
    assert all(future.cancelled() or future.exception() for future in futures)


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate, grpc.Compression.NoCompression])
def test_compressed_messages(serve, connect, algorithm):
    server = serve()
    call = connect(server.target).unary_unary("/s/Echo")
    for message in (b"a" * 100_000, b"", b"x", bytes(range(256)) * 1000):
        assert call(message, compression=algorithm, timeout=20) == message
    assert server.statistics.bytes_received < 1_000_000
    assert (
        connect(server.target, **{"grpc.default_compression_algorithm": 2}).unary_unary("/s/Echo")(b"b" * 9) == b"b" * 9
    )


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_answers(serve, connect, encoding):
    server = serve(compression=GrpcCompression(encoding=encoding))
    channel = connect(server.target)
    assert channel.unary_unary("/s/Large")(b"20000000", timeout=20) == b"z" * 20_000_000
    assert server.statistics.bytes_sent < 200_000
    assert channel.unary_unary("/s/Echo")(b"short") == b"short"


def test_errors_fit_what_the_client_takes(serve, connect):
    """Longer than its limit, they would come as a status of the client's own."""
    server = serve()
    for most in (300, 1000, 16_384):
        call = connect(server.target, **{"grpc.absolute_max_metadata_size": most}).unary_unary("/s/Long")
        code, details = error_of(call, b"x")
        assert code is grpc.StatusCode.NOT_FOUND
        assert details.startswith("[request id: x")
        assert details.endswith("at the end")
    call = connect(server.target, **{"grpc.absolute_max_metadata_size": 1000}).unary_unary("/s/Many")
    code, details = error_of(call, b"")
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "over the 1000 that the client takes" in details


def test_a_bomb_is_refused(serve, connect):
    server = serve(limits=GrpcLimits(max_message_bytes=1_000_000))
    call = connect(server.target).unary_unary("/s/Echo")
    code, details = error_of(call, bytes(60 << 20), compression=grpc.Compression.Gzip)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "inflates to more than the limit" in details
    assert server.statistics.refused == {"message_size": 1}
    assert call(bytes(1_000_000), compression=grpc.Compression.Gzip) == bytes(1_000_000)


def test_a_message_over_the_limit(serve, connect):
    server = serve(limits=GrpcLimits(max_message_bytes=100_000))
    call = connect(server.target).unary_unary("/s/Echo")
    code, details = error_of(call, b"x" * 5_000_000)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "100000" in details
    assert error_of(call, b"x" * 100_001)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert call(b"x" * 100_000) == b"x" * 100_000
    assert server.app.calls[0].message == b"x" * 100_000


def test_too_many_half_received_messages(serve, connect):
    server = serve(limits=GrpcLimits(max_buffered_bytes=1_000_000))
    call = connect(server.target).unary_unary("/s/Echo")
    assert error_of(call, b"x" * 2_000_000)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert call(b"x" * 900_000) == b"x" * 900_000


def test_client_keepalive_pings(serve, connect):
    options = {
        "grpc.keepalive_time_ms": 100,
        "grpc.keepalive_timeout_ms": 1000,
        "grpc.http2.max_pings_without_data": 0,
        "grpc.keepalive_permit_without_calls": 1,
    }
    server = serve()
    channel = connect(server.target, **options)
    future = channel.unary_unary("/s/Hold").future(b"")
    assert server.app.started.wait(5)
    with pytest.raises(grpc.FutureTimeoutError):
        future.result(0.5)
    server.call_soon(server.app.waiting[0].reply, b"done")
    assert future.result(5) == b"done"


def test_streaming_methods_say_so(serve, connect):
    channel = connect(serve().target)
    assert error_of(channel.stream_unary("/s/Echo"), iter([b"a", b"b"]))[0] is grpc.StatusCode.UNIMPLEMENTED
    assert error_of(channel.stream_unary("/s/Echo"), iter([]))[0] is grpc.StatusCode.UNIMPLEMENTED
    assert list(channel.unary_stream("/s/Echo")(b"one")) == [b"one"]
