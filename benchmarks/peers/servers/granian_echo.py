"""Granian: a bare RSGI handler, its fastest interface."""

from __future__ import annotations

from typing import Any

import orjson


class Echo:
    """`POST /echo` gives the floats of `{"x": [...]}` back."""

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        body = await protocol()
        answer = orjson.dumps([float(value) for value in orjson.loads(body)["x"]])
        protocol.response_bytes(200, [("content-type", "application/json")], answer)


app = Echo()
