"""The floor's own cost: a service that gives its floats back.

trilith serve benchmarks/apps/echo.py:echo
curl -d '{"x": [1.0, 2.0]}' 127.0.0.1:8000/echo
"""

from __future__ import annotations

import trilith


@trilith.service
async def echo(x: list[float]) -> list[float]:
    """The same floats."""
    return x
