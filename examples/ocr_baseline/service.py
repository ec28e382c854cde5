"""The hand-written server's protocol, served by Trilith: its clients hold the same stubs and notice nothing.

    trilith serve examples/ocr_baseline/service.py:Carried --grpc-port 50051
    trilith serve examples/ocr_baseline/service.py:Staged --models examples/ocr/models --grpc-port 50051

`Carried` is the first step: what the servicer did, as a method. `Staged` is where it leads: the services of
examples/ocr, each with its own replicas, the models in the runtime. Both are `ocr_baseline.Ocr` of ocr.proto.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ocr"))

import app
import lines
from PIL import Image
from pipeline import OcrPipeline

import trilith
from trilith.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The message `Line` of ocr.proto."""

    text: str
    score: float
    box: list[float]
    row: int


def message(line: lines.Line) -> Line:
    """A line as the protocol has it: the corners in one row."""
    corners = [coordinate for corner in line.box for coordinate in corner]
    return Line(text=line.text, score=line.score, box=corners, row=line.row)


@trilith.service(proto="ocr.proto", replicas=2, threads=1)
class Carried:
    """The servicer of server.py: the whole pipeline in each replica."""

    def __init__(self) -> None:
        self._pipeline = OcrPipeline.open()

    @trilith.api(idempotent=True)
    def read(self, image: bytes) -> list[Line]:
        """Reads one page."""
        try:
            found = self._pipeline.read_file(image)
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        return [message(line) for line in found]


@trilith.service(proto="ocr.proto")
class Staged:
    """The same by services: one finds text, one reads it, batched, and the models live in the runtime."""

    ocr = trilith.depends(app.Ocr)

    @trilith.api(idempotent=True)
    async def read(self, image: Image.Image) -> list[Line]:
        """Reads one page."""
        return [message(line) for line in await self.ocr.read(image)]
