"""How much longer do small requests take while 16 MB are uploaded beside them?

    python benchmarks/uploads.py [--megabytes 16] [--rate 200] [--seconds 5] [--rounds 3]

Small requests are sent at a fixed rate, each timed from the moment at which it was due, so that a server that stands
still is seen. A round is some seconds without an upload and as many with uploads, one after the other. Told: the 99th
percentile of both and the difference. The goal: at most 20 ms more.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# Run as a file, Python looks for modules beside it and not in the folder above, where `benchmarks` is.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# The example's server is a module beside it, not a package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "ocr"))

import uvloop
from served import ServerFailed, serve

APP = f"{Path(__file__).resolve().parent}/apps/uploads.py:Uploads"
_SMALL = json.dumps({"x": [1.0, 2.0, 3.0, 4.0]}).encode()
_CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Latencies of small requests, in seconds, sorted: alone, and beside uploads; and how many uploads there were."""

    alone_s: list[float]
    beside_s: list[float]
    uploads: int

    @property
    def more_s(self) -> float:
        """How much longer the slowest hundredth takes beside uploads."""
        return percentile(self.beside_s, 0.99) - percentile(self.alone_s, 0.99)


def percentile(ordered: list[float], part: float) -> float:
    """That of sorted figures."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def measure(*, megabytes: float = 16.0, rate: float = 200.0, seconds: float = 5.0, rounds: int = 3) -> list[Round]:
    """The rounds against a server of their own.

    Raises:
        ServerFailed: it did not start, or gave a wrong answer.
    """
    with serve(APP) as server:
        return [_round(server.port, rate, seconds, megabytes) for _ in range(rounds)]


def _round(port: int, rate: float, seconds: float, megabytes: float) -> Round:
    uvloop.run(_small_requests(port, rate, 1.0))
    alone = uvloop.run(_small_requests(port, rate, seconds))
    # In a process of its own: what writes megabytes would make the small requests wait before they are sent.
    command = [sys.executable, __file__, "--upload-to", str(port), "--megabytes", str(megabytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as uploading:
        assert uploading.stdout is not None
        uploading.stdout.readline()
        beside = uvloop.run(_small_requests(port, rate, seconds))
        told, _ = uploading.communicate()  # its input ends, and so does it
    if uploading.returncode:
        raise ServerFailed("an upload failed")
    return Round(alone_s=alone, beside_s=beside, uploads=int(told))


def _upload(port: int, megabytes: float) -> None:
    """One after the other, until the standard input ends; then it prints how many there were, but the first."""
    body = os.urandom(round(megabytes * 1e6))
    connection = http.client.HTTPConnection("127.0.0.1", port)
    sent = -1
    while not select.select([sys.stdin], [], [], 0)[0]:
        connection.request("POST", "/size", body, {"content-type": "application/octet-stream"})
        answer = connection.getresponse()
        if (answer.status, answer.read()) != (200, b"%d" % len(body)):
            raise ServerFailed("the size of an upload is wrong")
        sent += 1
        if sent == 0:
            print("begun", flush=True)
    print(sent)


async def _small_requests(port: int, rate: float, seconds: float) -> list[float]:
    loop = asyncio.get_running_loop()
    due: asyncio.Queue[float] = asyncio.Queue()
    latencies: list[float] = []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while (at := await due.get()) >= 0:
                if json.loads(await _ask(reader, writer, b"/echo", b"application/json", _SMALL)) != [1, 2, 3, 4]:
                    raise ServerFailed("the echo is wrong")
                latencies.append(time.perf_counter() - at)
        finally:
            writer.close()

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(connection())
        for number in range(round(rate * seconds)):
            at = begun + number / rate
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            due.put_nowait(at)
        for _ in range(_CONNECTIONS):
            loop.call_soon(due.put_nowait, -1.0)
    return sorted(latencies)


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: bytes, kind: bytes, body: bytes
) -> bytes:
    writer.write(
        b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (path, kind, len(body))
    )
    writer.write(body)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    answer = await reader.readexactly(int(length))
    if not head.startswith(b"HTTP/1.1 200"):
        raise ServerFailed(f"the server answered {head!r:.100} {answer!r:.200}")
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=16.0, help="of an upload")
    parser.add_argument("--rate", type=float, default=200.0, help="small requests a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each half of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--upload-to", type=int, metavar="PORT", help="upload only, until the standard input ends")
    options = vars(parser.parse_args())
    port = options.pop("upload_to")
    if port is not None:
        _upload(port, options["megabytes"])
        return
    for number, found in enumerate(measure(**options), 1):
        alone, beside = (
            [percentile(each, part) * 1e3 for part in (0.5, 0.99)] for each in (found.alone_s, found.beside_s)
        )
        print(
            f"round {number}: alone p50 {alone[0]:.2f} p99 {alone[1]:.2f} ms; beside {found.uploads} uploads"
            f" p50 {beside[0]:.2f} p99 {beside[1]:.2f} ms; {found.more_s * 1e3:.2f} ms more"
        )


if __name__ == "__main__":
    main()
