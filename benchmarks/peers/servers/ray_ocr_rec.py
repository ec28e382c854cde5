"""Ray Serve: one deployment with two replicas, one a core. The environment chooses its default or throughput mode.

python ray_ocr_rec.py PORT
"""

from __future__ import annotations

import asyncio

from ray import serve
from ray_serving import run
from recognizer import Recognizer
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=1000, num_replicas=2)
class Recognize:
    def __init__(self) -> None:
        self._recognizer = Recognizer()

    async def __call__(self, request: Request) -> list[int]:
        return await asyncio.to_thread(self._recognizer.recognize, await request.body())


if __name__ == "__main__":
    run(Recognize.bind(), "/recognize")
