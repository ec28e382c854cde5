"""A service that says something of its answers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import trilith


@trilith.service
class Contexts:
    @trilith.api
    async def make(self, status: int, headers: dict[str, str]) -> dict[str, str]:
        context = trilith.context()
        context.status = status
        for name, value in headers.items():
            context.set_header(name, value)
        return {"client": context.client, **context.cookies}

    @trilith.api
    async def heard(self) -> dict[str, str]:
        identity = trilith.context().identity
        who = {} if identity is None else {"name": identity.name, "kind": identity.kind}
        return {**trilith.context().headers, **who}

    @trilith.api
    async def size(self, text: str) -> int:
        return len(text)

    @trilith.api
    async def remember(self, name: str) -> str:
        trilith.context().set_cookie("kept", name, max_age_s=60)
        return name

    @trilith.api
    async def log_in(self, name: str) -> str:
        trilith.context().set_cookie("session", name, max_age_s=3600, secure=False)
        trilith.context().set_cookie("theme", "dark", http_only=False, same_site="strict", secure=False)
        return name

    @trilith.api(batch=trilith.Batch(max_size=8, max_wait_ms=200))
    async def each(self, words: list[str]) -> list[str]:
        for context, word in zip(trilith.context().items, words, strict=True):
            context.set_header("x-word", word)
        return [str(len(words))] * len(words)

    @trilith.api(timeout_s=60)
    async def hold(self) -> str:
        (trilith.context().temp_dir / "held.txt").write_text("x")
        await asyncio.get_running_loop().create_future()
        return ""

    @trilith.api(timeout_s=60)
    def hold_in_thread(self, until: str) -> str:
        (trilith.context().temp_dir / "held.txt").write_text("x")
        while not Path(until).exists():
            time.sleep(0.02)
        return ""
