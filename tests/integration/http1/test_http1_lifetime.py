"""Start, drain, sockets of others, TLS."""

import asyncio
import contextlib
import datetime
import errno
import ipaddress
import os
import resource
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from http1_live import Client, echo, get, post, run, serving
from waiting import until

from trilith.errors import InvalidConfig, PortInUse, SetupError
from trilith.net.http1 import HttpRequest, HttpServer, tls_context
from trilith.net.listen import listen_tcp


def test_a_taken_port() -> None:
    async def main() -> None:
        async with serving(echo) as live:
            with pytest.raises(PortInUse, match=f"127.0.0.1:{live.port}: another process listens there. Stop it, or"):
                await HttpServer(echo).start(port=live.port)

    run(main)


def test_before_the_start() -> None:
    server = HttpServer(echo)
    assert server.addresses == []
    assert server.statistics().connections_accepted_total == 0
    assert "not listening" in repr(server)
    assert asyncio.run(server.drain(1)) == 0


def test_started_twice() -> None:
    async def main() -> None:
        async with serving(echo) as live:
            with pytest.raises(SetupError, match="was started before"):
                await live.server.start()

    run(main)


def test_sockets_of_the_caller(tmp_path: Path) -> None:
    async def main() -> None:
        listening = listen_tcp("127.0.0.1", 0)
        local = socket.socket(socket.AF_UNIX)
        local.bind(str(tmp_path / "s"))
        local.listen()
        server = HttpServer(echo)
        await server.start(sockets=[*listening, local])
        assert len(server.addresses) == 1
        for opening in (
            asyncio.open_connection(*server.addresses[0]),
            asyncio.open_unix_connection(str(tmp_path / "s")),
        ):
            client = Client(*await opening)
            await client.send(get())
            assert (await client.answers("GET"))[0][0] == 200
            await client.close()
        assert await server.drain(1) == 0

    run(main)


def test_drain_finishes_what_has_begun() -> None:
    release = asyncio.Event()

    async def app(request: HttpRequest) -> None:
        await release.wait()
        request.respond(200, await request.body())

    async def main() -> None:
        async with serving(app) as live:
            idle, busy, sending = await live.connect(), await live.connect(), await live.connect()
            await busy.send(get() + get())
            await sending.send(post(b"ab", length=4))
            await until(lambda: live.server.statistics().connections == 3)
            await until(lambda: live.server.statistics().requests == 1)
            draining = asyncio.ensure_future(live.server.drain(10))
            assert await idle.rest() == b""
            with pytest.raises(ConnectionRefusedError):
                await live.connect()
            release.set()
            await sending.send(b"cd")
            (_, _, body), (_, headers, _) = (await sending.answers("POST"))[0], (await busy.answers("GET", "GET"))[1]
            assert body == b"abcd"
            assert headers[b"connection"] == b"close"
            assert await draining == 0

    run(main)


def test_drain_has_a_deadline() -> None:
    async def app(request: HttpRequest) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with serving(app) as live:
            stuck, half = await live.connect(), await live.connect()
            await stuck.send(get())
            await half.send(post(b"ab", length=4))
            await until(lambda: live.server.statistics().bytes_received == len(get() + post(b"ab", length=4)))
            assert await live.server.drain(0.1) == 2
            for connection in (stuck, half):
                answer = await connection.rest()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b'"code":"draining"' in answer
            assert live.server.statistics().connections == 0

    run(main)


def test_drain_cancels_what_goes_on_after_an_answer() -> None:
    ended: list[bool] = []

    async def app(request: HttpRequest) -> None:
        request.respond(200)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def main() -> None:
        async with serving(app) as live:
            assert (await live.ask(get()))[0] == 200
            assert ended == []
            assert await live.server.drain(1) == 0
            assert ended == [True]
            assert await live.server.drain(1) == 0

    run(main)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    folder = tmp_path_factory.mktemp("tls")
    certificate_path, key_path = folder / "certificate.pem", folder / "key.pem"
    certificate_path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_path, key_path


def trusting(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def test_tls(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        async with serving(echo, tls=tls_context(*certificate), read_ahead_bytes=10_000) as live:
            client = await live.connect(ssl=trusting(certificate[0]))
            assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            for body in (b"abc", b"x" * 3_000_000):
                await client.send(post(body))
                ((status, _, answer),) = await client.answers("POST")
                assert (status, answer == body) == (200, True)
            await client.send(b"nonsense\r\n\r\n")
            ((status, _, _),) = await client.answers("GET")
            assert status == 501

    run(main)


def test_handshakes_count_as_connections(certificate: tuple[Path, Path]) -> None:
    """Who never ends one makes room for who comes, and is counted; who is connected stays."""

    async def main() -> None:
        limits = {"max_connections": 4, "max_turned_away": 1}
        async with serving(echo, tls=tls_context(*certificate), **limits) as live:
            kept = await live.connect(ssl=trusting(certificate[0]))
            silent = [await live.connect() for _ in range(60)]
            for _ in range(3):
                client = await live.connect(ssl=trusting(certificate[0]))
                await client.send(post(b"abc"))
                ((status, _, _),) = await client.answers("POST")
                assert status == 200
                await client.close()
            assert await silent[0].reader.read() == b""  # the oldest were closed
            statistics = live.server.statistics()
            assert statistics.refused["connections"] >= 50
            await kept.send(post(b"abc"))
            ((status, _, _),) = await kept.answers("POST")
            assert status == 200

    run(main)


def test_handshakes_that_fail_are_counted(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        async with serving(echo, tls=tls_context(*certificate), head_timeout_s=0.3) as live:
            slow, plain, gone = [await live.connect() for _ in range(3)]
            await plain.send(get())
            await gone.close()
            assert await slow.reader.read() == b""
            await plain.reader.read()
            await until(lambda: live.server.statistics().refused.get("handshake") == 3)
            assert live.server.statistics().connections == 0

    run(main)


@pytest.mark.parametrize("loop", [uvloop.run, asyncio.run])
def test_connections_wait_while_there_is_no_descriptor(certificate: tuple[Path, Path], loop: Any, caplog: Any) -> None:
    async def main() -> None:
        async with serving(echo, tls=tls_context(*certificate)) as live:
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            with contextlib.ExitStack() as undo:
                waiting = undo.enter_context(socket.socket())
                waiting.setblocking(False)
                undo.callback(resource.setrlimit, resource.RLIMIT_NOFILE, hard)
                resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 50, hard[1]))
                with contextlib.suppress(OSError):
                    while True:
                        undo.callback(os.close, os.dup(waiting.fileno()))
                assert waiting.connect_ex((live.host, live.port)) in (0, errno.EINPROGRESS)
                await until(lambda: "connections wait" in caplog.text)
            client = await live.connect(ssl=trusting(certificate[0]))
            await client.send(get())
            ((status, _, _),) = await client.answers("GET")
            assert status == 200

    async def limited() -> None:
        async with asyncio.timeout(20):
            await main()

    loop(limited())


def test_tls_too_long_a_body_and_plain_text(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        limits = {"max_body_bytes": 1000, "linger_timeout_s": 0.2}
        async with serving(echo, tls=tls_context(*certificate), **limits) as live:
            client = await live.connect(ssl=trusting(certificate[0]))
            await client.send(post(b"x" * 400_000))
            ((status, _, _),) = await client.answers("POST")
            assert status == 413
            plain = await live.connect()
            await plain.send(get())
            assert b"HTTP" not in await plain.rest()

    run(main)


def test_tls_disconnect(certificate: tuple[Path, Path]) -> None:
    ended: list[str] = []

    async def app(request: HttpRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.path)

    async def main() -> None:
        async with serving(app, tls=tls_context(*certificate), read_ahead_bytes=1000) as live:
            for data in (get("/a"), post(b"x" * 500_000, length=5_000_000, target="/b")):
                client = await live.connect(ssl=trusting(certificate[0]))
                await client.send(data)
                await until(lambda: live.server.statistics().in_flight == 1)
                client.writer.transport.abort()
                await until(lambda: live.server.statistics().connections == 0)
            assert ended == ["/a", "/b"]

    run(main)


def test_tls_client_certificates(certificate: tuple[Path, Path]) -> None:
    def app(request: HttpRequest) -> None:
        assert request.client_certificate is not None
        request.respond(200, str(request.client_certificate["subject"]).encode())

    async def main() -> None:
        async with serving(app, tls=tls_context(*certificate, client_ca=certificate[0])) as live:
            known = trusting(certificate[0])
            known.load_cert_chain(*certificate)
            client = await live.connect(ssl=known)
            await client.send(get())
            ((status, _, body),) = await client.answers("GET")
            assert (status, body) == (200, b"((('commonName', 'localhost'),),)")
            # In TLS 1.3 a client learns only after its handshake that its certificate is missing.
            stranger = await live.connect(ssl=trusting(certificate[0]))
            try:
                await stranger.send(get())
                received = await stranger.rest()
            except (ssl.SSLError, ConnectionError):
                received = b""
            assert received == b""
            assert live.server.statistics().requests == 1

    run(main)


def test_tls_files_that_cannot_be_used(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidConfig, match="cannot use TLS certificate"):
        tls_context(tmp_path / "none.pem", certificate[1])
    with pytest.raises(InvalidConfig, match="cannot use TLS client authorities"):
        tls_context(*certificate, client_ca=tmp_path / "none.pem")
