"""Many streams at once, one of whose readers is slow: does memory hold, and what does an item cost?

    python benchmarks/streams.py [--clients 32] [--rate 1000] [--seconds 30] [--websocket]

Each client reads `--rate` items a second, but the last one, which reads as many bytes a second as `--slow-bytes` says.
Told: the items that the others got, CPU an item of gateway and replica, and the memory of both, second by second.
The goal (32 clients at 1000 items/s) is that the memory of the last third is not above that of the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_APP = Path(__file__).parent / "apps" / "streams.py"
_RECEIVE_BYTES = 1 << 16


async def _serve() -> tuple[asyncio.subprocess.Process, int]:
    ports = [word for name in ("--http-port", "--grpc-port", "--metrics-port") for word in (name, "0")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "trilith", "serve", f"{_APP}:Ticks", *ports),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    async for line in process.stdout:
        if b"ready: " in line:
            return process, int(line.split(b"http://", 1)[1].split()[0].rsplit(b":", 1)[1])
    raise SystemExit("the server has not started")


async def _open(port: int, rate: float, *, websocket: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # A bound of 64 kB, so that a slow reader's own memory does not hide the server's.
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_RECEIVE_BYTES)
    if websocket:
        writer.write(
            b"GET /ticks?per_s=%g HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % rate
        )
        return reader, writer
    body = json.dumps({"per_s": rate}).encode()
    writer.write(
        b"POST /ticks HTTP/1.1\r\nhost: x\r\naccept: application/jsonl\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )
    return reader, writer  # which closes the connection when it is freed


async def _read(reader: asyncio.StreamReader, counts: list[int], at: int) -> None:
    while chunk := await reader.read(_RECEIVE_BYTES):
        counts[at] += chunk.count(b'{"number"')


async def _read_slowly(reader: asyncio.StreamReader, bytes_per_s: int) -> None:
    while await reader.read(max(1, bytes_per_s // 10)):  # noqa: ASYNC110 - it is slow on purpose
        await asyncio.sleep(0.1)


def _children(process_id: int) -> dict[str, psutil.Process]:
    found = {}
    for child in psutil.Process(process_id).children():
        words = " ".join(child.cmdline())
        for name in ("gateway", "worker"):
            if f"engine.{name}" in words:
                found[name] = child
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run gave.

    Attributes:
        items_per_s: those that arrived at all clients but the slow one.
        cpu_us: microseconds of CPU an item, by process: gateway and worker.
        memory_mb: mebibytes, second by second, by process.
    """

    items_per_s: float
    cpu_us: dict[str, float]
    memory_mb: dict[str, list[float]]

    def first_and_last(self, name: str) -> tuple[float, float]:
        """The memory of a process in the first third and in the last."""
        samples = self.memory_mb[name]
        third = max(1, len(samples) // 3)
        return statistics.median(samples[:third]), statistics.median(samples[-third:])

    @property
    def growth_mb(self) -> float:
        """By how much the process that grew most has grown from the first third to the last."""
        return max(last - first for first, last in map(self.first_and_last, self.memory_mb))


async def measure(
    *, clients: int, rate: float, seconds: int, warm_up: float, slow_bytes: int, websocket: bool = False
) -> Found:
    """A run against a server of its own.

    Args:
        clients: streams at once; the last one reads slowly.
        rate: items a second to each.
        seconds: measured.
        warm_up: seconds before.
        slow_bytes: what the slow client reads a second.
        websocket: whether they come over websockets; else as lines of JSON.
    """
    server, port = await _serve()
    try:
        counts = [0] * (clients - 1)
        opened = [await _open(port, rate, websocket=websocket) for _ in range(clients)]
        readers = [reader for reader, _ in opened]
        tasks = [asyncio.create_task(_read(readers[at], counts, at)) for at in range(clients - 1)]
        tasks.append(asyncio.create_task(_read_slowly(readers[-1], slow_bytes)))
        children = _children(server.pid)
        await asyncio.sleep(warm_up)
        memory: dict[str, list[float]] = {name: [] for name in children}
        before = sum(counts)
        cpu_before = {name: sum(child.cpu_times()[:2]) for name, child in children.items()}
        begun = time.monotonic()
        for _ in range(seconds):
            await asyncio.sleep(1.0)
            for name, child in children.items():
                memory[name].append(child.memory_info().rss / 2**20)
        elapsed_s = time.monotonic() - begun
        items = sum(counts) - before
        cpu = {name: sum(child.cpu_times()[:2]) - cpu_before[name] for name, child in children.items()}
        for task in tasks:
            task.cancel()
    finally:
        server.terminate()
        await server.wait()
    return Found(
        items_per_s=items / elapsed_s,
        cpu_us={name: used_s / max(1, items) * 1e6 for name, used_s in cpu.items()},
        memory_mb=memory,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1000.0, help="items a second to each")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds before the first measurement")
    parser.add_argument("--slow-bytes", type=int, default=2000, help="what the slow client reads a second")
    parser.add_argument("--websocket", action="store_true", help="over websockets; else as lines of JSON")
    parser.add_argument("--slack-mb", type=float, default=4.0, help="growth that is none: allocators round up")
    options = vars(parser.parse_args())
    slack_mb = options.pop("slack_mb")
    found = asyncio.run(measure(**options))
    print(f"{found.items_per_s:,.0f} items/s to {options['clients'] - 1} clients; asked for {options['rate']:g} each")
    for name, cpu_us in found.cpu_us.items():
        first, last = found.first_and_last(name)
        print(f"{name}: {cpu_us:.1f} us CPU an item; memory {first:.1f} MiB, then {last:.1f} MiB")
    held = found.growth_mb <= slack_mb
    print("memory holds" if held else "MEMORY GROWS")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
