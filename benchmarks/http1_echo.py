"""Echoes bodies over HTTP/1.1 and reports its own CPU time: `python benchmarks/http1_echo.py`, then e.g.

wrk -t1 -c32 -d3 -s <(echo 'wrk.method="POST"; wrk.body="{}"') http://127.0.0.1:PORT/
"""

import asyncio
import signal
import sys
import time

import uvloop

from trilith.net.http1 import HttpRequest, HttpServer


def echo(request: HttpRequest) -> None:
    request.respond(200, request.body_nowait())


async def main() -> None:
    server = HttpServer(echo)
    await server.start(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(server.addresses, flush=True)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    began_s = time.process_time()
    await stopping.wait()
    cpu_s = time.process_time() - began_s
    await server.drain(1.0)
    statistics = server.statistics()
    print(statistics)
    print(f"{cpu_s / max(1, statistics.requests) * 1e6:.1f} us of CPU per request")


if __name__ == "__main__":
    uvloop.run(main())
