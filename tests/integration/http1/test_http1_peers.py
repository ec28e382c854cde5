"""Programs that people use against the server: curl and wrk."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from http1_live import echo, run, serving

from trilith.net.http1 import HttpRequest

pytestmark = pytest.mark.peer


def needs(tool: str) -> None:
    if shutil.which(tool) is None and not os.environ.get("CI"):
        pytest.skip(f"{tool} is not installed")


async def output(*command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    text, _ = await process.communicate()
    return process.returncode or 0, text.decode(errors="replace")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--http1.0"],
        ["--http2"],
        ["-H", "Transfer-Encoding: chunked"],
        ["-H", "Expect: 100-continue"],
        ["-H", "Connection: close"],
    ],
)
@pytest.mark.parametrize("size", [3, 2_000_000])
def test_curl_echo(options: list[str], size: int, tmp_path: Path) -> None:
    needs("curl")
    if options == ["--http2"]:
        size = 0  # curl offers h2c with a body too; that is refused, see the reader

    async def main() -> None:
        async with serving(echo) as live:
            sent, got = tmp_path / "sent", tmp_path / "got"
            sent.write_bytes(os.urandom(size))
            upload = ["--data-binary", f"@{sent}"] if size else []
            code, text = await output(
                "curl", "-sS", "--fail", *options, *upload, "-o", str(got), f"http://127.0.0.1:{live.port}/"
            )
            assert code == 0, text
            assert (got.read_bytes() if got.exists() else b"") == sent.read_bytes()

    run(main)


def test_curl_reads_why_its_upload_was_refused(tmp_path: Path) -> None:
    needs("curl")

    async def main() -> None:
        async with serving(echo, max_body_bytes=1000) as live:
            sent = tmp_path / "sent"
            sent.write_bytes(b"x" * 3_000_000)
            code, text = await output(
                "curl", "-sS", "-H", "Expect:", "--data-binary", f"@{sent}", f"http://127.0.0.1:{live.port}/"
            )
            assert code == 0, text
            assert "payload_too_large" in text

    run(main)


def test_curl_notices_a_stream_that_was_cut() -> None:
    needs("curl")

    async def source() -> AsyncIterator[bytes]:
        yield b"part"
        raise ValueError("in the middle")

    async def app(request: HttpRequest) -> None:
        await request.stream(source())

    async def main() -> None:
        async with serving(app) as live:
            code, text = await output("curl", "-sS", f"http://127.0.0.1:{live.port}/")
            assert code in (18, 56), text
            assert "part" in text

    run(main)


def test_wrk() -> None:
    needs("wrk")

    async def main() -> None:
        async with serving(echo) as live:
            code, text = await output("wrk", "-t1", "-c16", "-d1", f"http://127.0.0.1:{live.port}/")
            assert code == 0, text
            assert "Non-2xx" not in text
            assert "Socket errors" not in text
            found = live.server.statistics()
            assert found.requests > 100
            assert set(found.responses) == {200}

    run(main)
