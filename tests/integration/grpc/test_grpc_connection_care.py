"""Keep-alive, age and identity of connections, against grpcio."""

import ssl
import time

import grpc
import pytest
from stream_app import STREAMING, StreamApp
from test_grpc_lifecycle import self_signed, wait_until

from trilith.net.grpc import GrpcLimits
from trilith.net.http1 import tls_context
from trilith.wire.grpc_status import GrpcStatus

EAGER = {
    "grpc.keepalive_time_ms": 50,
    "grpc.keepalive_timeout_ms": 5000,
    "grpc.http2.max_pings_without_data": 0,
    "grpc.keepalive_permit_without_calls": 1,
}


def test_a_client_that_pings_too_often_is_told_so(serve, connect):
    server = serve(limits=GrpcLimits(min_ping_interval_s=60, max_ping_strikes=2))
    future = connect(server.target, **EAGER).unary_unary("/s/Hold").future(b"", timeout=30)
    with pytest.raises(grpc.RpcError) as caught:
        future.result(30)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "too_many_pings" in (caught.value.debug_error_string() + caught.value.details()).lower().replace(" ", "_")
    assert server.statistics.refused["too_many_pings"] == 1


def test_pings_of_a_busy_stream_are_no_strikes(serve, connect):
    server = serve(StreamApp(), streaming=STREAMING, limits=GrpcLimits(min_ping_interval_s=60, max_ping_strikes=5))
    call = connect(server.target, **EAGER).stream_stream("/s/Chat")(iter_slowly(40, 0.02), timeout=30)
    assert len(list(call)) == 40
    assert server.statistics.refused == {}


def iter_slowly(count, pause_s):
    for number in range(count):
        time.sleep(pause_s)
        yield b"%d" % number


def test_our_pings_find_a_client_that_vanished(serve):
    import socket

    server = serve(limits=GrpcLimits(keepalive_interval_s=0.2, keepalive_timeout_s=0.2))
    silent = socket.create_connection(server.server.addresses[0])
    silent.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
    wait_until(lambda: server.statistics.keepalive_timeouts == 1)
    silent.close()


def test_connections_of_age_end_and_no_call_is_lost(serve, connect):
    server = serve(limits=GrpcLimits(max_connection_age_s=0.2))
    call = connect(server.target).unary_unary("/s/Task")
    calls = 0
    while server.statistics.connections_accepted_total < 3:
        assert call(b"x", timeout=20) == b"x"
        calls += 1
    assert server.statistics.outcomes == {GrpcStatus.OK: calls}


def test_the_identity_of_a_client_is_on_the_call(serve, connect, tmp_path):
    certificate, key = self_signed(tmp_path)
    server = serve(StreamApp(), ssl=tls_context(certificate, key, client_ca=certificate, protocols=("h2",)))
    known = grpc.ssl_channel_credentials(certificate.read_bytes(), key.read_bytes(), certificate.read_bytes())
    assert connect(server.target, known).unary_unary("/s/Who")(b"", timeout=10) == b"localhost"
    unknown = grpc.ssl_channel_credentials(certificate.read_bytes())
    with pytest.raises(grpc.RpcError) as caught:
        connect(server.target, unknown).unary_unary("/s/Who")(b"", timeout=2)
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    other = tmp_path / "other"
    other.mkdir()
    stranger = grpc.ssl_channel_credentials(
        certificate.read_bytes(), *(path.read_bytes() for path in reversed(self_signed(other)))
    )
    with pytest.raises(grpc.RpcError):
        connect(server.target, stranger).unary_unary("/s/Who")(b"", timeout=2)
    assert sum(server.statistics.outcomes.values()) == 1


def test_without_certificates_nobody_is_named(serve, connect, tmp_path):
    certificate, key = self_signed(tmp_path)
    server = serve(StreamApp(), ssl=tls_context(certificate, key, protocols=("h2",)))
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    assert connect(server.target, credentials).unary_unary("/s/Who")(b"", timeout=10) == b"nobody"


def test_h2_is_what_tls_agrees_on(serve, tmp_path):
    import socket

    certificate, key = self_signed(tmp_path)
    server = serve(ssl=tls_context(certificate, key, protocols=("h2",)))
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.set_alpn_protocols(["http/1.1", "h2"])
    with socket.create_connection(server.server.addresses[0]) as raw, context.wrap_socket(raw) as secure:
        assert secure.selected_alpn_protocol() == "h2"
