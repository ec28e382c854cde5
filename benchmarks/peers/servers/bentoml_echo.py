"""BentoML: an asynchronous API of one service, as its documentation shows it."""

from __future__ import annotations

import bentoml


@bentoml.service
class Echo:
    @bentoml.api
    async def echo(self, x: list[float]) -> list[float]:
        return x
