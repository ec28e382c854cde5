"""BentoML: a synchronous API with the crop as a file, two threads, as its documentation shows it."""

from __future__ import annotations

from pathlib import Path

import bentoml
from recognizer import Recognizer


@bentoml.service(threads=2)
class Recognize:
    def __init__(self) -> None:
        self._recognizer = Recognizer()

    @bentoml.api
    def recognize(self, crop: Path, /) -> list[int]:
        return self._recognizer.recognize(crop)
