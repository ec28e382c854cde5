"""Small requests and large uploads, side by side.

trilith serve benchmarks/apps/uploads.py:Uploads
curl -T large.bin -X POST -H 'content-type: application/octet-stream' 127.0.0.1:8000/size
"""

from __future__ import annotations

import trilith


@trilith.service
class Uploads:
    """An echo of floats, and the size of what is uploaded."""

    @trilith.api
    async def echo(self, x: list[float]) -> list[float]:
        """The same floats."""
        return x

    @trilith.api
    async def size(self, body: bytes, /) -> int:
        """How many bytes there are."""
        return len(body)
