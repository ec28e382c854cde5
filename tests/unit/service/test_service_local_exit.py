"""A method that wants to end its process, called in this one."""

import asyncio
import sys

import pytest

import trilith
from trilith.errors import ServiceError


@trilith.service
class Leaves:
    @trilith.api
    async def on_loop(self) -> int:
        sys.exit(3)

    @trilith.api
    def in_thread(self) -> int:
        sys.exit(3)


@trilith.service
class Outer:
    inner = trilith.depends(Leaves)

    @trilith.api
    async def call(self, method: str) -> str:
        with pytest.raises(ServiceError, match=f"Leaves.{method} raised SystemExit: 3"):
            await getattr(self.inner, method)()
        return "and the loop goes on"


@pytest.mark.parametrize("method", ["on_loop", "in_thread"])
def test_it_fails_its_call_as_in_a_replica(method):
    assert asyncio.run(Outer().call(method)) == "and the loop goes on"
