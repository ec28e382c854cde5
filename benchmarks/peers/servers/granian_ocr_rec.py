"""Granian: a bare RSGI handler; the model runs in asyncio's threads."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from recognizer import Recognizer


class Recognize:
    """`POST /recognize` with a crop as .npy."""

    def __init__(self) -> None:
        self._recognizer = Recognizer()

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        answer = await asyncio.to_thread(self._recognizer.recognize, await protocol())
        protocol.response_bytes(200, [("content-type", "application/json")], orjson.dumps(answer))


app = Recognize()
