"""CPU per call of the gateway-worker transport: two processes, one connection.

    python benchmarks/transport.py [--seconds 0.5] [--rounds 3] [--echo]

Prints, for each body size and number of calls in flight, microseconds of CPU per call on the calling and on the called
side, and calls per second. Without `--echo` the answer is empty. The body arrives as one buffer that the called side
does not read; the best round of each is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time

import uvloop

from trilith.net.transport import IncomingCall, LostCall, Peer, Reply, peer_from_socket

SIZES_BYTES = (0, 256, 4096, 16_384, 65_536, 262_144, 1 << 20, 10 << 20)


async def serve(sock: socket.socket, *, echo: bool) -> None:
    """The called side: answers until the connection ends, then prints the CPU seconds it took."""
    ended = asyncio.get_running_loop().create_future()

    def on_call(call: IncomingCall) -> None:
        call.begin()
        call.result(b"", call.buffers if echo else ())

    def on_lost(_: list[LostCall]) -> None:
        ended.set_result(None)

    def prepare(peer: Peer) -> None:
        peer.on_call, peer.on_lost = on_call, on_lost

    started_s = time.process_time()
    peer_from_socket(sock, grant=64, prepare=prepare)
    await ended
    print(time.process_time() - started_s)


async def load(sock: socket.socket, size: int, in_flight: int, seconds: float) -> tuple[int, float]:
    """The calling side: keeps `in_flight` calls going; returns calls and CPU seconds."""
    peer = peer_from_socket(sock, grant=0)
    await peer.wait_greeted()
    done = asyncio.get_running_loop().create_future()
    body = [os.urandom(size)] if size else []
    end_at, calls, open_calls = time.monotonic() + seconds, 0, 0

    def start() -> None:
        nonlocal open_calls
        open_calls += 1
        peer.call(b"meta", body, on_reply)

    def on_reply(reply: Reply) -> None:
        nonlocal calls, open_calls
        assert reply.ok, reply.error_message
        calls += 1
        open_calls -= 1
        if time.monotonic() < end_at:
            if peer.credits:
                start()
        elif not open_calls:
            done.set_result(None)

    def refill() -> None:
        while open_calls < in_flight and peer.credits and time.monotonic() < end_at:
            start()

    peer.on_credits = refill
    started_s = time.process_time()
    refill()
    await done
    used_s = time.process_time() - started_s
    await peer.close(1.0)
    return calls, used_s


def measure(size: int, in_flight: int, seconds: float, *, echo: bool) -> tuple[float, float, float]:
    """Microseconds on the calling side, on the called side, and calls per second."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    command = [sys.executable, __file__, "--serve", str(far.fileno()), *(["--echo"] if echo else [])]
    worker = subprocess.Popen(command, pass_fds=[far.fileno()], stdout=subprocess.PIPE)
    far.close()
    calls, used_s = uvloop.run(load(near, size, in_flight, seconds))
    output, _ = worker.communicate(timeout=10)
    return used_s / calls * 1e6, float(output) / calls * 1e6, calls / seconds


def main() -> None:
    """Runs the table, or one worker of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--echo", action="store_true")
    parser.add_argument("--serve", type=int)
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(serve(socket.socket(fileno=options.serve), echo=options.echo))
        return
    print(f"{'bytes':>9} {'in flight':>9} {'caller us':>10} {'called us':>10} {'calls/s':>9}")
    for size in SIZES_BYTES:
        for in_flight in (1, 32):
            rounds = [measure(size, in_flight, options.seconds, echo=options.echo) for _ in range(options.rounds)]
            caller, called, rate = (min(r[0] for r in rounds), min(r[1] for r in rounds), max(r[2] for r in rounds))
            print(f"{size:>9} {in_flight:>9} {caller:>10.1f} {called:>10.1f} {rate:>9.0f}", flush=True)


if __name__ == "__main__":
    main()
