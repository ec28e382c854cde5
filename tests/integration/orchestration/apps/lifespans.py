"""A service with a mount whose lifespan raises once a request has come."""

from __future__ import annotations

import asyncio
from typing import Any

import trilith


class Failing:
    """An application that keeps something open, which fails."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await self.failed.wait()
            raise ValueError("its pool is gone")
        self.failed.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"failing"})


@trilith.service(health_interval_s=0.05, health_failures=2)
class Lifespans:
    ui = trilith.mount("/ui", Failing())

    @trilith.api
    async def one(self) -> int:
        return 1
