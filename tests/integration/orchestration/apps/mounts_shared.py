"""A WSGI mount and plain methods in one service; another service that stands behind middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import trilith


def pages(environ: Any, start_response: Any) -> Iterator[bytes]:
    """Endless at /big, waits for the whole body at /read, else a word."""
    size = len(environ["wsgi.input"].read()) if environ["PATH_INFO"] == "/read" else 0
    start_response("200 OK", [("content-type", "text/plain")])
    while environ["PATH_INFO"] == "/big":
        yield b"x" * 60_000
    yield b"%d" % size


async def other(scope: Any, receive: Any, send: Any) -> None:
    """A word."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"other"})


@trilith.service(threads=2, timeout_s=20)
class Shared:
    pages = trilith.mount("/pages", pages)
    other = trilith.mount("/other", other)

    @trilith.api
    def plain(self) -> str:
        return "plain"


def passes(app: Any) -> Any:
    """Middleware that does nothing."""
    return app


@trilith.service(middleware=[passes])
class Behind:
    @trilith.api
    async def quiet(self) -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(1000)
