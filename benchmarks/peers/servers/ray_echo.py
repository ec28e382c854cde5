"""Ray Serve: one deployment with one replica. The environment chooses its default or its throughput mode.

python ray_echo.py PORT
"""

from __future__ import annotations

from ray import serve
from ray_serving import run
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=1000, num_replicas=1)
class Echo:
    async def __call__(self, request: Request) -> list[float]:
        return [float(value) for value in (await request.json())["x"]]


if __name__ == "__main__":
    run(Echo.bind(), "/echo")
