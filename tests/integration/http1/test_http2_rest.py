"""REST over HTTP/2 on the HTTP server: curl, nghttp, h2load, and a TLS client that agrees by ALPN."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest
from http1_live import Live, echo, run, serving
from test_http1_lifetime import certificate
from test_http1_peers import needs, output

from trilith.net.http1 import HttpRequest, tls_context

__all__ = ["certificate"]  # a fixture


def version(request: HttpRequest) -> Any:
    """Says how it was asked, or echoes, or streams."""
    if request.path == "/stream":
        return request.stream(_pieces(), content_type=b"application/octet-stream")
    return echo(request)


async def _pieces() -> AsyncIterator[bytes]:
    for _ in range(50):
        yield b"x" * 100_000


@pytest.mark.peer
@pytest.mark.parametrize("size", [0, 3, 70_000, 5_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_curl_with_prior_knowledge(size: int, chunked: bool, tmp_path: Path) -> None:
    needs("curl")

    async def main() -> None:
        async with serving(echo) as live:
            sent, got = tmp_path / "sent", tmp_path / "got"
            sent.write_bytes(bytes(range(256)) * (size // 256) + b"y" * (size % 256))
            options = ["--data-binary", f"@{sent}"] if size else []
            if size and chunked:
                options = ["-T", "-", "-X", "POST"]  # of unknown length
            shape = ["-o", str(got), "-w", "%{http_version} %{http_code}"]
            command = ["curl", "-sS", "--http2-prior-knowledge", *options, *shape, f"http://127.0.0.1:{live.port}/"]
            code, text = await output("sh", "-c", 'exec "$@" < "$0"', str(sent), *command)
            assert (code, text) == (0, "2 200")
            assert (got.read_bytes() if got.exists() else b"") == sent.read_bytes()

    run(main)


@pytest.mark.peer
def test_curl_streams_heads_and_refusals() -> None:
    needs("curl")

    async def main() -> None:
        async with serving(version, max_body_bytes=1000) as live:
            url = f"http://127.0.0.1:{live.port}"
            curl = ["curl", "-sS", "--http2-prior-knowledge"]
            code, text = await output(*curl, "-o", "/dev/null", "-w", "%{size_download}", f"{url}/stream")
            assert (code, text) == (0, "5000000")
            code, text = await output(*curl, "-I", f"{url}/")
            assert (code, text.splitlines()[0].strip()) == (0, "HTTP/2 200")
            code, text = await output(*curl, "-o", "/dev/null", "-w", "%{http_code}", "-d", "x" * 1001, f"{url}/")
            assert (code, text) == (0, "413")
            code, text = await output("curl", "-sS", "-w", "%{http_version}", f"{url}/")
            assert (code, text) == (0, "1.1")  # the same port
            assert live.server.statistics().refused == {"body_too_large": 1}

    run(main)


@pytest.mark.peer
def test_nghttp() -> None:
    needs("nghttp")

    async def main() -> None:
        async with serving(echo) as live:
            code, text = await output("nghttp", "-nv", "-m", "20", f"http://127.0.0.1:{live.port}/")
            assert code == 0, text
            assert text.count(":status: 200") == 20
            assert "ERROR" not in text.replace("NO_ERROR", "")

    run(main)


@pytest.mark.peer
def test_h2load_of_both_protocols_on_one_port() -> None:
    needs("h2load")

    async def main() -> None:
        async with serving(echo) as live:
            for options in (["-m", "32"], ["--h1"]):
                url = f"http://127.0.0.1:{live.port}/"
                code, text = await output("h2load", "-n", "2000", "-c", "4", *options, url)
                assert code == 0, text
                assert re.search(r"2000 succeeded, 0 failed, 0 errored", text), text
            assert live.server.statistics().responses == {200: 4000}

    run(main)


@pytest.mark.peer
def test_curl_agrees_by_alpn(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    needs("curl")

    async def main() -> None:
        tls = tls_context(*certificate, protocols=("h2", "http/1.1"))
        async with serving(echo, tls=tls) as live:
            sent = tmp_path / "sent"
            sent.write_bytes(b"x" * 300_000)
            curl, url = ["curl", "-sS", "-k"], f"https://127.0.0.1:{live.port}"
            shape = ["-o", "/dev/null", "-w", "%{http_version} %{http_code} %{size_download}\n"]
            for option, version in (("--http2", "2"), ("--http1.1", "1.1")):
                code, text = await output(*curl, option, *shape, "--data-binary", f"@{sent}", f"{url}/")
                assert (code, text) == (0, f"{version} 200 300000\n")
            # Many over one connection; curl 7.88 itself cannot use one again that it opened with prior knowledge.
            before = live.server.statistics().connections_accepted_total
            code, text = await output(*curl, "--http2", "-Z", "--no-progress-meter", *shape, f"{url}/[1-50]")
            assert (code, text) == (0, "2 200 0\n" * 50)
            assert live.server.statistics().connections_accepted_total == before + 1

    run(main)


class H2Client:
    """A connection driven by the h2 library."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.initiate_connection()

    @classmethod
    async def of(cls, live: Live, **options: Any) -> "H2Client":
        client = await live.connect(**options)
        return cls(client.reader, client.writer)

    def ask(self, path: str, **options: Any) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        names = (":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", path)
        self.h2.send_headers(stream_id, list(names), end_stream=True, **options)
        self.flush()
        return stream_id

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def until(self, kind: type, stream_id: int = 0) -> Any:
        while True:
            data = await self.reader.read(1 << 16)
            assert data, "the connection ended"
            for event in self.h2.receive_data(data):
                if isinstance(event, kind) and getattr(event, "stream_id", stream_id) == stream_id:
                    return event
            self.flush()


def test_a_reset_cancels_its_handler_and_no_other() -> None:
    cancelled: list[str] = []
    begun = asyncio.Semaphore(0)
    gone, released = asyncio.Event(), asyncio.Event()

    async def wait(request: HttpRequest) -> None:
        begun.release()
        try:
            await released.wait()
        except asyncio.CancelledError:
            cancelled.append(request.path)
            gone.set()
            raise
        request.respond(200, request.path.encode())

    async def main() -> None:
        async with serving(wait) as live:
            client = await H2Client.of(live)
            first, second = client.ask("/first"), client.ask("/second")
            await begun.acquire()
            await begun.acquire()
            client.h2.reset_stream(first)
            client.flush()
            await gone.wait()
            released.set()
            assert (await client.until(h2.events.DataReceived, second)).data == b"/second"
            assert cancelled == ["/first"]

    run(main)


@pytest.mark.peer
def test_a_drain_over_tls_with_a_request_in_flight(certificate: tuple[Path, Path]) -> None:
    needs("curl")
    begun, released = asyncio.Event(), asyncio.Event()

    async def wait(request: HttpRequest) -> None:
        begun.set()
        await released.wait()
        request.respond(200, b"done")

    async def main() -> None:
        tls = tls_context(*certificate, protocols=("h2", "http/1.1"))
        async with serving(wait, tls=tls) as live:
            url = f"https://127.0.0.1:{live.port}/"
            asking = asyncio.ensure_future(output("curl", "-sSk", "--http2", "-w", " %{http_version}", url))
            await begun.wait()
            draining = asyncio.ensure_future(live.server.drain(10))
            await asyncio.sleep(0)
            released.set()
            assert await asking == (0, "done 2")
            assert await draining == 0

    run(main)


def test_at_the_end_of_a_drain_over_http2_what_runs_is_answered() -> None:
    needs("curl")
    begun = asyncio.Event()

    async def wait(request: HttpRequest) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with serving(wait) as live:
            url = f"http://{live.host}:{live.port}/"
            asking = asyncio.ensure_future(
                output("curl", "-sS", "--http2-prior-knowledge", "-w", " %{http_code} %{http_version}", url)
            )
            await begun.wait()
            assert await live.server.drain(0.1) == 1
            code, text = await asking
            assert (code, text.rpartition("}")[2]) == (0, " 503 2")
            assert '"code":"draining"' in text

    run(main)
