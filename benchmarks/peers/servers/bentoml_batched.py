"""BentoML: a batchable API, whose adaptive batching finds its own window, as its documentation shows it."""

from __future__ import annotations

import time

import bentoml


@bentoml.service
class Doubled:
    @bentoml.api(batchable=True, max_batch_size=32)
    def double(self, x: list[float]) -> list[float]:
        time.sleep(0.005)
        return [2 * one for one in x]
