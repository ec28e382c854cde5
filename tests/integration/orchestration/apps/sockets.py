"""A service that websockets are opened to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

import trilith
from trilith.errors import InvalidInput


@trilith.service(threads=8, concurrency=64)
class Sockets:
    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.made = 0

    @trilith.api
    async def echo(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            yield part

    @trilith.api
    async def said(self, words: AsyncIterator[str], mark: str = "") -> AsyncIterator[str]:
        self.begun += 1
        try:
            async for word in words:
                yield word + mark
        finally:
            self.ended += 1

    @trilith.api
    def said_plainly(self, words: Iterator[str]) -> Iterator[str]:
        self.begun += 1
        try:
            yield from words
        finally:
            self.ended += 1

    @trilith.api
    async def counted(self, words: AsyncIterator[str]) -> AsyncIterator[int]:
        """Answers nothing before the end."""
        found = [len(word) async for word in words]
        yield len(found)

    @trilith.api
    async def sums(self, arrays: AsyncIterator[np.ndarray]) -> AsyncIterator[float]:
        async for array in arrays:
            yield float(array.sum())

    @trilith.api
    async def joined(self, words: AsyncIterator[str]) -> str:
        return "".join([word async for word in words])

    @trilith.api
    async def packed(self, words: AsyncIterator[str]) -> bytes:
        return "".join([word async for word in words]).encode()

    @trilith.api
    async def spread(self, items: list[dict[str, int]], times: int = 1) -> AsyncIterator[dict[str, int]]:
        for item in items * times:
            yield item

    @trilith.api
    async def sliced(self, content: bytes, size: int = 2) -> AsyncIterator[bytes]:
        for at in range(0, len(content), size):
            yield content[at : at + size]

    @trilith.api
    async def endless(self, size: int = 1000) -> AsyncIterator[str]:
        self.begun += 1
        try:
            while True:
                self.made += 1
                yield "x" * size
                await asyncio.sleep(0)
        finally:
            self.ended += 1

    @trilith.api
    async def quiet(self) -> AsyncIterator[int]:
        """No argument: it begins with the handshake."""
        self.begun += 1
        try:
            yield os.getpid()
            await asyncio.Event().wait()
        finally:
            self.ended += 1

    @trilith.api
    async def stubborn(self, words: AsyncIterator[str]) -> AsyncIterator[str]:
        """Takes its time to stop."""
        self.begun += 1
        try:
            async for word in words:
                yield word
        finally:
            try:
                await asyncio.shield(asyncio.sleep(0.3))
            finally:
                self.ended += 1

    @trilith.api
    async def broken(self, words: AsyncIterator[str]) -> AsyncIterator[str]:
        async for word in words:
            if word == "stop":
                raise InvalidInput("that word is not said")
            if word == "bug":
                raise RuntimeError("the secret is 42")
            yield word

    @trilith.api
    async def seen(self) -> dict[str, int]:
        return {"begun": self.begun, "ended": self.ended, "made": self.made}

    @trilith.api
    async def circumstances(self, words: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
        context = trilith.context()
        async for word in words:
            yield {name: value for name, value in context.headers.items() if name.startswith(word)}


def passes(app: Any) -> Any:
    """Middleware that does nothing."""
    return app


@trilith.service(threads=8, concurrency=64, middleware=[passes])
class Behind(Sockets):
    """The same behind middleware."""
