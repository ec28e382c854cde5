"""A loop for a test, with a bound on its time, and a check that no descriptor is left open."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest
import uvloop


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Coroutine[object, object, object]], object]]:
    """Runs a coroutine to its end, on either loop; then every descriptor must be closed."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_bounded(coroutine: Coroutine[object, object, object]) -> object:
        async def bounded() -> object:
            async with asyncio.timeout(20):
                return await coroutine

        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(bounded())

    run_bounded(asyncio.sleep(0))  # what the loop itself opens once is opened now
    before = open_descriptors()
    yield run_bounded
    if open_descriptors() > before:
        gc.collect()  # peers are in cycles, and what failed holds its frames
    assert open_descriptors() <= before
