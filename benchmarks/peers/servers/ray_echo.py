"""Ray Serve: one deployment with one replica. The environment chooses its default or its throughput mode.

python ray_echo.py PORT
"""

from __future__ import annotations

import signal
import sys
import threading

import ray
from ray import serve
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=1000, num_replicas=1)
class Echo:
    async def __call__(self, request: Request) -> list[float]:
        return [float(value) for value in (await request.json())["x"]]


def main() -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Echo.bind(), route_prefix="/echo")
    while not stopping.wait(0.5):
        pass
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
