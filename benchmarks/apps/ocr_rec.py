"""One model behind a service: recognition of one crop.

trilith serve benchmarks/apps/ocr_rec.py:Recognizer --models examples/ocr/models
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import trilith


@trilith.service
class Recognizer:
    """The model's most probable class for each step of a crop."""

    model = trilith.model("ocr-rec")

    @trilith.api(idempotent=True)
    async def recognize(self, crop: NDArray[np.float32]) -> list[int]:
        """The classes of one crop, float32 [1, 3, 48, W]."""
        probabilities = await self.model(crop)
        classes: list[int] = probabilities[0].argmax(-1).tolist()
        return classes
