"""A service that few streams fill."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import trilith


async def body(scope: Any, receive: Any, send: Any) -> None:
    """How long the body is."""
    size, more = 0, scope["type"] == "http"
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % size})


@trilith.service(threads=2, concurrency=8)
class Crowded:
    body = trilith.mount("/body", body)

    @trilith.api
    def numbers(self) -> Iterator[bytes]:
        while True:
            yield bytes(20_000)

    @trilith.api
    async def echo(self, said: AsyncIterator[str]) -> AsyncIterator[str]:
        async for each in said:
            yield each

    @trilith.api
    async def quick(self) -> str:
        return "quick"

    @trilith.api
    def plain(self) -> str:
        return "plain"
