"""100 requests at 200 a second to a model that takes a fixed 100 ms for up to 16 rows: when is the last one answered?

    python -m benchmarks.burst [--peers trilith-identity,trilith-python,triton] [--rounds 3]

The load is an open loop: requests leave at their time, whatever was answered. A batcher that never waits in vain needs
0.8 s from the first request to the last answer: one batch of the first request, seven of what came meanwhile. Takes
some 5 s a peer and round, most of it their start.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import uvloop
from benchmarks.peers.environment import DEFAULT_FOLDER, ensure
from benchmarks.peers.identity import Variant
from benchmarks.peers.registry import PEERS
from benchmarks.peers.rounds import EXPECTED
from benchmarks.peers.server import running
from benchmarks.peers.workloads import Workload, identity
from rich.console import Console
from rich.table import Table

from trilith.measure import read_conditions

REQUESTS = 100
RATE_PER_S = 200.0
WITHIN_S = 0.9
MODEL = Variant(largest=16, delay_ms=100)
_PEERS = ("trilith-identity", "trilith-python", "triton")
_GIVE_UP_AFTER_S = 30.0


class BurstFailed(RuntimeError):
    """Some request was not answered, or wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What one burst gave.

    Attributes:
        last_s: seconds from the first request to the last answer.
        latencies_s: of each request, from the moment at which it should leave, ascending.
    """

    last_s: float
    latencies_s: list[float]


class _Call(asyncio.Protocol):
    """One connection for one request."""

    def __init__(self, answered: asyncio.Future[tuple[float, bytes]]) -> None:
        self._answered = answered
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank or self._answered.done():
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._answered.set_exception(BurstFailed(f"the server answered {self._received[:300]!r}"))
            return
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        if length and len(body) >= int(length):
            self._answered.set_result((asyncio.get_running_loop().time(), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(BurstFailed(f"the server closed the connection ({exc})"))


async def send(port: int, workload: Workload) -> Burst:
    """Sends the requests at their times.

    Raises:
        BurstFailed: a request was refused, answered wrongly, or not answered within 30 s.
    """
    loop = asyncio.get_running_loop()
    head = (
        f"POST {workload.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {workload.content_type}\r\n"
        f"content-length: {len(workload.body)}\r\n\r\n"
    )
    answers: list[asyncio.Future[tuple[float, bytes]]] = [loop.create_future() for _ in range(REQUESTS)]
    calls = []
    for answer in answers:
        _, call = await loop.create_connection(lambda answer=answer: _Call(answer), "127.0.0.1", port)
        calls.append(call)
    begin = loop.time() + 0.05
    due = [begin + number / RATE_PER_S for number in range(REQUESTS)]
    for call, at in zip(calls, due, strict=True):
        loop.call_at(at, call.transport.write, head.encode() + workload.body)
    try:
        async with asyncio.timeout(_GIVE_UP_AFTER_S):
            found = await asyncio.gather(*answers)
    except TimeoutError:
        missing = sum(not answer.done() for answer in answers)
        raise BurstFailed(f"{missing} of {REQUESTS} requests had no answer after {_GIVE_UP_AFTER_S:g} s") from None
    finally:
        for call in calls:
            call.transport.abort()
    wrong = next((content for _, content in found if not workload.right(content)), None)
    if wrong is not None:
        raise BurstFailed(f"a wrong answer: {wrong[:200]!r}")
    return Burst(
        last_s=max(at for at, _ in found) - begin,
        latencies_s=sorted(at - left for (at, _), left in zip(found, due, strict=True)),
    )


def measure(name: str, folder: Path = DEFAULT_FOLDER) -> Burst:
    """Starts a peer, sends one burst, ends it. Raises what `benchmarks.peers.rounds.EXPECTED` lists."""
    peer, workload = PEERS[name], identity("identity-burst", MODEL)
    with running(peer, ensure(peer.environment, folder), workload) as (_, port):
        return uvloop.run(send(port, workload))


def main() -> int:
    options = _options()
    table = Table(
        title=f"{REQUESTS} requests at {RATE_PER_S:g}/s, 100 ms for up to 16 rows: seconds (goal: {WITHIN_S:g})",
        title_justify="left",
    )
    for name in ("peer", "last answer", "p50", "longest", "round"):
        table.add_column(name, justify="left" if name == "peer" else "right")
    failures = []
    for turn in range(1, options.rounds + 1):
        for name in options.peers:
            try:
                burst = measure(name, options.folder)
            except EXPECTED as error:
                failures.append(f"FAILED {name}, round {turn}: {error}")
                continue
            median = burst.latencies_s[len(burst.latencies_s) // 2]
            table.add_row(name, f"{burst.last_s:.3f}", f"{median:.3f}", f"{burst.latencies_s[-1]:.3f}", str(turn))
    Console(highlight=False, width=110).print(table)
    for line in (*(f"{key}: {value}" for key, value in read_conditions(("trilith",)).items()), *failures):
        print(line)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.burst", description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=_peers, default=list(_PEERS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where the environments are kept")
    return parser.parse_args()


def _peers(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in _PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(_PEERS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
