"""Ray Serve: one deployment, a replica for each core, each with sessions of its own.

A replica takes two pages at a time, so that the next one is there when a page ends; more wait at the proxy for the
replica that is free first.

python ray_ocr_page.py PORT
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from page_reader import PageReader
from ray import serve
from ray_serving import run
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=2, num_replicas=os.cpu_count() or 1, ray_actor_options={"num_cpus": 1})
class Ocr:
    def __init__(self) -> None:
        self._reader = PageReader()

    async def __call__(self, request: Request) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._reader.read, await request.body())


if __name__ == "__main__":
    run(Ocr.bind(), "/read")
