"""Start, drain, TLS, ports, refusals, time limits."""

import asyncio
import datetime
import ipaddress
import socket
import threading

import grpc
import pytest
from grpc_app import RecordingApp
from waiting import wait_until

from trilith.errors import InvalidConfig, PortInUse, SetupError
from trilith.net.grpc import GrpcLimits, GrpcServer
from trilith.net.http1 import tls_context
from trilith.wire.http2 import ConnectionState


def are_draining(server):
    """Whether each client was told to go."""
    return all(each._http2.state is ConnectionState.DRAINING for each in server._state.connections)


def test_a_taken_port_is_an_error(serve):
    port = serve().server.addresses[0][1]
    with pytest.raises(PortInUse, match=str(port)):
        asyncio.run(GrpcServer(RecordingApp()).start(port=port))


def test_a_foreign_host_is_an_error():
    with pytest.raises(InvalidConfig):
        asyncio.run(GrpcServer(RecordingApp()).start(host="203.0.113.7"))


def test_given_sockets_and_a_plain_loop(connect):
    listening = socket.create_server(("127.0.0.1", 0))

    async def main():
        server = GrpcServer(RecordingApp())
        await server.start(sockets=[listening])
        host, port = server.addresses[0]
        call = connect(f"{host}:{port}").unary_unary("/s/Task")
        answer = await asyncio.to_thread(call, b"x" * 100_000, timeout=10)
        with pytest.raises(SetupError, match="was started before"):
            await server.start()
        await server.drain(1.0)
        return answer

    assert asyncio.run(main()) == b"x" * 100_000


def test_a_server_that_never_started():
    server = GrpcServer(RecordingApp())
    assert asyncio.run(server.drain(1.0)) == 0
    assert server.statistics().connections_accepted_total == 0


def test_drain_lets_calls_end(serve, connect):
    server = serve()
    call = connect(server.target).unary_unary("/s/Hold")
    future = call.future(b"")
    assert server.app.started.wait(5)
    stopped = []
    thread = threading.Thread(target=lambda: stopped.append(server.stop()))
    thread.start()
    wait_until(lambda: server.call_soon(are_draining, server.server))
    assert thread.is_alive()
    server.call_soon(server.app.waiting[0].reply, b"in time")
    assert future.result(5) == b"in time"
    thread.join(5)
    assert stopped == [0]


def test_drain_cuts_at_its_deadline(serve, connect):
    server = serve()
    channel = connect(server.target)
    futures = [channel.unary_unary("/s/Sleep").future(b""), channel.unary_unary("/s/Hold").future(b"")]
    assert server.app.started.wait(5)
    wait_until(lambda: len(server.app.calls) == 2)
    assert server.run(server.server.drain(0.3)) == 1
    for future in futures:
        assert future.exception(5).code() is grpc.StatusCode.UNAVAILABLE
    assert "server is stopping" in futures[0].exception().details()
    assert server.app.cancelled.wait(1)
    assert server.statistics.connections == 0


def test_calls_move_on_while_one_server_drains(serve, connect):
    first, second = serve(), serve()
    target = f"ipv4:{first.target},{second.target}"
    call = connect(target, **{"grpc.lb_policy_name": "round_robin"}).unary_unary("/s/Task")
    assert call(b"warm", wait_for_ready=True, timeout=10) == b"warm"
    answers, stop = [], threading.Event()

    def load():
        while not stop.is_set():
            answers.append(call(b"x", timeout=10))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) >= 100)
    assert first.stop() == 0
    seen = len(answers)
    wait_until(lambda: len(answers) >= seen + 100)
    stop.set()
    for thread in threads:
        thread.join(5)
    assert set(answers) == {b"x"}  # nothing lost: each call was answered, here or there


def test_tls(serve, connect, tmp_path):
    certificate, key = self_signed(tmp_path)
    context = tls_context(certificate, key, protocols=("h2",))
    server = serve(ssl=context)
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    call = connect(server.target, credentials).unary_unary("/s/Echo")
    assert call(b"secret", timeout=10) == b"secret"
    assert call(b"x" * 3_000_000, timeout=20) == b"x" * 3_000_000


def test_connections_over_the_limit_are_refused(serve, connect):
    server = serve(limits=GrpcLimits(max_connections=1))
    assert connect(server.target).unary_unary("/s/Echo")(b"1") == b"1"
    with pytest.raises(grpc.RpcError) as caught:
        connect(server.target).unary_unary("/s/Echo")(b"2", timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert server.statistics.refused["connections"] >= 1


def test_an_idle_connection_is_drained_and_the_client_comes_back(serve, connect):
    server = serve(limits=GrpcLimits(idle_timeout_s=0.1))
    call = connect(server.target).unary_unary("/s/Echo")
    assert call(b"1") == b"1"
    wait_until(lambda: server.statistics.connections == 0)
    assert call(b"2", timeout=10) == b"2"


def test_silent_connections_are_cut(serve):
    server = serve(limits=GrpcLimits(handshake_timeout_s=0.1))
    host, port = server.server.addresses[0]
    with socket.create_connection((host, port)) as silent:
        silent.settimeout(5)
        assert silent.recv(100) == b""


def self_signed(folder):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_file, key_file
