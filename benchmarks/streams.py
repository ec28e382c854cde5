"""Many streams at once, one of whose readers is slow: does memory hold, and what does an item cost?

    python benchmarks/streams.py [--clients 32] [--rate 1000] [--seconds 30]

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


async def _open(port: int, rate: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # A bound of 64 kB, so that a slow reader's own memory does not hide the server's.
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_RECEIVE_BYTES)
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


async def _measure(options: argparse.Namespace) -> int:
    server, port = await _serve()
    try:
        counts = [0] * (options.clients - 1)
        opened = [await _open(port, options.rate) for _ in range(options.clients)]
        readers = [reader for reader, _ in opened]
        tasks = [asyncio.create_task(_read(readers[at], counts, at)) for at in range(options.clients - 1)]
        tasks.append(asyncio.create_task(_read_slowly(readers[-1], options.slow_bytes)))
        children = _children(server.pid)
        await asyncio.sleep(options.warm_up)
        memory: dict[str, list[int]] = {name: [] for name in children}
        before = sum(counts)
        cpu_before = {name: sum(child.cpu_times()[:2]) for name, child in children.items()}
        begun = time.monotonic()
        for _ in range(options.seconds):
            await asyncio.sleep(1.0)
            for name, child in children.items():
                memory[name].append(child.memory_info().rss)
        seconds = time.monotonic() - begun
        items = sum(counts) - before
        cpu = {name: sum(child.cpu_times()[:2]) - cpu_before[name] for name, child in children.items()}
        for task in tasks:
            task.cancel()
    finally:
        server.terminate()
        await server.wait()
    print(f"{items / seconds:,.0f} items/s to {options.clients - 1} clients; asked for {options.rate:g} each")
    third = max(1, options.seconds // 3)
    held = True
    for name, samples in memory.items():
        first, last = statistics.median(samples[:third]) / 2**20, statistics.median(samples[-third:]) / 2**20
        held = held and last <= first + options.slack_mb
        print(
            f"{name}: {cpu[name] / max(1, items) * 1e6:.1f} us CPU an item; memory {first:.1f} MiB, then {last:.1f} MiB"
        )
    print("memory holds" if held else "MEMORY GROWS")
    return 0 if held else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1000.0, help="items a second to each")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds before the first measurement")
    parser.add_argument("--slow-bytes", type=int, default=2000, help="what the slow client reads a second")
    parser.add_argument("--slack-mb", type=float, default=4.0, help="growth that is none: allocators round up")
    return asyncio.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
