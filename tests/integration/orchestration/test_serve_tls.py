"""`trilith serve` with TLS on both ports."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import resource
import socket
import ssl
import subprocess
import sys
import threading

import grpc
import pytest
from live_server import APPS

import trilith
from trilith.errors import InvalidConfig, NoReadyReplica, ReplicaLost, TrilithError

pytest.importorskip("cryptography")


def _certificate(folder):
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "certificate.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = folder / "key.pem"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem, private


def test_https_and_grpc_over_tls(serve, tmp_path):
    pem, key = _certificate(tmp_path)
    options = ("--tls-certificate", str(pem), "--tls-key", str(key), "--metrics-port", "off")
    server = serve(f"{APPS}/calls.py:Calls", *options, ready=False)
    line = server.wait_line("ready: https://")
    command = [sys.executable, "-m", "trilith", "status"]
    place = {**os.environ, "XDG_RUNTIME_DIR": str(server.runtime_folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=place, check=False, timeout=20)
    assert (done.returncode, "  https 127.0.0.1:" in done.stdout) == (0, True)
    port = int(line.split("https://127.0.0.1:", 1)[1].split()[0])
    context = ssl.create_default_context(cafile=str(pem))
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=20)
    connection.request("POST", "/echo", b'{"x":[1.5]}', {"content-type": "application/json"})
    assert connection.getresponse().read() == b"[1.5]"
    connection.close()
    address = line.split("gRPC 127.0.0.1:", 1)[1].split()[0]
    with grpc.secure_channel(f"localhost:{address}", grpc.ssl_channel_credentials(pem.read_bytes())) as channel:
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        assert live(b"", timeout=20) == b"\x08\x01"


def test_a_key_without_its_certificate_is_refused(serve, tmp_path):
    _, key = _certificate(tmp_path)
    server = serve(f"{APPS}/calls.py:Calls", "--tls-key", str(key), ready=False)
    assert server.process.wait(20) == 2
    server.wait_line("go together")


def test_an_unusable_certificate_is_named(serve, tmp_path):
    _, key = _certificate(tmp_path)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not a certificate")
    options = ("--tls-certificate", str(wrong), "--tls-key", str(key))
    server = serve(f"{APPS}/calls.py:Calls", *options, ready=False)
    assert server.process.wait(20) == 1
    server.wait_line("wrong.pem")


def _status(connection):
    connection.request("GET", "/livez")
    return connection.getresponse().status


def test_mutual_tls_lets_in_who_is_known(serve, tmp_path):
    pem, key = _certificate(tmp_path)
    options = ("--tls-certificate", str(pem), "--tls-key", str(key), "--tls-client-ca", str(pem))
    server = serve(f"{APPS}/calls.py:Calls", *options, ready=False)
    line = server.wait_line("ready: https://")
    port = int(line.split("https://127.0.0.1:", 1)[1].split()[0])
    known = ssl.create_default_context(cafile=str(pem))
    known.load_cert_chain(pem, key)
    connection = http.client.HTTPSConnection("localhost", port, context=known, timeout=20)
    assert _status(connection) == 200
    connection.close()
    unknown = http.client.HTTPSConnection(
        "localhost", port, context=ssl.create_default_context(cafile=str(pem)), timeout=20
    )
    with pytest.raises((ssl.SSLError, ConnectionError)):  # TLS 1.3: the refusal comes with the first answer
        _status(unknown)
    unknown.close()
    address = line.split("gRPC 127.0.0.1:", 1)[1].split()[0]
    mine = grpc.ssl_channel_credentials(pem.read_bytes(), key.read_bytes(), pem.read_bytes())
    with grpc.secure_channel(f"localhost:{address}", mine) as channel:
        live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        assert live(b"", timeout=20) == b"\x08\x01"


def test_client_authorities_need_a_certificate(serve, tmp_path):
    pem, _ = _certificate(tmp_path)
    server = serve(f"{APPS}/calls.py:Calls", "--tls-client-ca", str(pem), ready=False)
    assert server.process.wait(20) == 2
    server.wait_line("needs --tls-certificate")


def _refused(server, protocol):
    wanted = f'trilith_refused_total{{protocol="{protocol}",reason="connections"}} '
    lines = server.get("/metrics", port=server.metrics)[1].decode().splitlines()
    return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


def test_handshakes_that_never_end_keep_nobody_out(serve, tmp_path):
    """200 of them, where a process may have 96 descriptors: each holds one."""
    pem, key = _certificate(tmp_path)
    server = serve(f"{APPS}/calls.py:Calls", "--tls-certificate", str(pem), "--tls-key", str(key), ready=False)
    # The children are started after the agent has loaded itself, and get its limits.
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (96, 96))
    server.wait_ready(scheme="https")
    context = ssl.create_default_context(cafile=str(pem))
    credentials = grpc.ssl_channel_credentials(pem.read_bytes())

    def served():
        connection = http.client.HTTPSConnection("localhost", server.http, context=context, timeout=20)
        with contextlib.closing(connection):
            connection.request("POST", "/echo", b'{"x":[1.5]}', {"content-type": "application/json"})
            assert connection.getresponse().read() == b"[1.5]"
        with grpc.secure_channel(f"localhost:{server.grpc}", credentials) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            assert live(b"", timeout=20, wait_for_ready=True) == b"\x08\x01"

    with contextlib.ExitStack() as silent:
        for number in range(200):
            port = server.http if number % 2 else server.grpc
            silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            if number % 50 == 0:
                served()
        server.wait_until(lambda: _refused(server, "http") >= 50 and _refused(server, "grpc") >= 50)
        served()
    served()
    assert "ended" not in server.output


@pytest.fixture
def mutual(serve, tmp_path):
    """A server that shows a certificate of its own and asks for one, and the files of both."""
    pem, key = _certificate(tmp_path)
    options = ("--tls-certificate", str(pem), "--tls-key", str(key), "--tls-client-ca", str(pem))
    line = serve(f"{APPS}/calls.py:Calls", *options, ready=False).wait_line("ready: https://")
    return f"https://localhost:{line.split('https://127.0.0.1:', 1)[1].split()[0]}", pem, key


def test_the_client_trusts_an_authority_and_shows_its_certificate(mutual, monkeypatch):
    url, pem, key = mutual
    with trilith.client(url, tls_ca=pem, tls_certificate=pem, tls_key=key) as client:
        assert client.echo(x=[1.5]) == [1.5]
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with trilith.client(url, tls_certificate=pem, tls_key=key) as client:
        assert client.echo(x=[2.5]) == [2.5]

    async def awaited():
        async with trilith.client(url, asynchronous=True, tls_ca=pem, tls_certificate=pem, tls_key=key) as client:
            return await client.echo(x=[3.5])

    assert asyncio.run(awaited()) == [3.5]


def test_the_client_says_what_is_wrong_with_a_certificate(mutual, tmp_path):
    url, pem, _ = mutual
    with pytest.raises(NoReadyReplica, match=r"is not trusted: .*tls_ca="):
        trilith.client(url)
    with pytest.raises(TrilithError, match=r"only clients with a certificate|the connection to .* broke"):
        trilith.client(url, tls_ca=pem)
    with pytest.raises(InvalidConfig, match=r"tls_ca: .*missing\.pem: no PEM file"):
        trilith.client(url, tls_ca=tmp_path / "missing.pem")
    with pytest.raises(InvalidConfig, match=r"tls_certificate: .*: no certificate with its key"):
        trilith.client(url, tls_certificate=pem)
    with pytest.raises(InvalidConfig, match="tls_key needs tls_certificate"):
        trilith.client(url, tls_key=pem)
    with pytest.raises(InvalidConfig, match="headers: expected names and values of text"):
        trilith.client(url, headers={"x": 1})


@pytest.mark.parametrize("certified", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_client_says_what_a_server_may_miss_that_hangs_up_at_once(tmp_path, certified, asynchronous):
    """With TLS 1.3 the refusal of a client without a certificate may be overtaken by the end of the connection."""
    pem, key = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    listener = context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)

    def hang_up():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)

    thread = threading.Thread(target=hang_up)
    thread.start()
    url = f"https://localhost:{listener.getsockname()[1]}"
    own = {"tls_certificate": pem, "tls_key": key} if certified else {}
    hint = "may not trust the one in tls_certificate=" if certified else r"wants tls_certificate= \(and tls_key=\)"

    async def awaited():
        async with trilith.client(url, asynchronous=True, tls_ca=pem, **own):
            pass

    def ask():
        return asyncio.run(awaited()) if asynchronous else trilith.client(url, tls_ca=pem, **own)

    with contextlib.closing(listener), pytest.raises(ReplicaLost, match=hint):
        ask()
    thread.join()
