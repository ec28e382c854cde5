"""A batched Python method that takes 5 ms a call, however many items it is called with (up to 32).

trilith serve benchmarks/apps/batched.py:Doubled
curl -d '{"x": [2.0]}' 127.0.0.1:8000/double
"""

from __future__ import annotations

import time

import trilith


@trilith.service
class Doubled:
    """Twice what it is given, as a model would: one call costs the same for one item and for 32."""

    @trilith.api(batch=trilith.Batch(max_size=32))
    def double(self, x: list[list[float]]) -> list[list[float]]:
        """Twice each."""
        time.sleep(0.005)
        return [[2 * one for one in row] for row in x]
