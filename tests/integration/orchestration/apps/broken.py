"""Services that cannot start."""

from __future__ import annotations

import trilith


@trilith.service
class Broken:
    def __init__(self) -> None:
        raise RuntimeError("the constructor does not like Mondays")

    @trilith.api
    async def echo(self, x: int) -> int:
        return x


@trilith.service
class NoSuchModel:
    model = trilith.model("nowhere-to-be-found")

    @trilith.api
    async def echo(self, x: int) -> int:
        return x
