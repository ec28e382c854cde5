"""OCR as three services: one finds text, one reads it, one puts the page together.

    trilith serve app:Ocr
    curl --data-binary @out/ocr-page.png -H 'content-type: image/png' http://127.0.0.1:8000/read

Each service can be scaled, placed and replaced alone. The two models are hosted by the runtime, once a machine.
"""

from __future__ import annotations

import asyncio

import cv2
import detection
import numpy as np
import recognition
from crops import cut
from geometry import Array, reading_order
from lines import Line, to_lines
from PIL import Image, ImageOps
from recognition import Reading

import trilith


@trilith.service
class Detector:
    """Finds the lines of text on a page."""

    model = trilith.model("ocr-det")

    @trilith.api(idempotent=True)
    async def detect(self, image: Array) -> Array:
        """The boxes [N, 4, 2] of the text on a blue-green-red uint8 image [height, width, 3], in no order."""
        output = await self.model(detection.to_input(image))
        boxes, _ = detection.from_output(output, *image.shape[:2])
        return boxes


@trilith.service(replicas=2, cpu=1)
class Recognizer:
    """Reads single lines of text."""

    model = trilith.model("ocr-rec")

    def __init__(self) -> None:
        self._characters = recognition.classes(self.model.metadata)

    @trilith.api(batch=trilith.Batch(max_size=4), idempotent=True)
    async def read(self, crops: list[Array]) -> list[Reading]:
        """What each crop says: upright blue-green-red uint8 images [height, width, 3]."""
        best, chance = await self.model(recognition.to_input(crops))
        return recognition.from_output(best, chance, self._characters)


@trilith.service
class Ocr:
    """Reads pages."""

    detector = trilith.depends(Detector)
    recognizer = trilith.depends(Recognizer)

    @trilith.api(idempotent=True)
    async def read(self, image: Image.Image) -> list[Line]:
        """The text on a page, in reading order."""
        page = blue_green_red(image)
        boxes = await self.detector.detect(page)
        crops = [cut(page, box) for box in boxes]
        # Narrow crops first: those that wait together are of about one width, so their batch has little padding.
        order = sorted(range(len(crops)), key=lambda index: recognition.bucket_width(crops[index]))
        answers = await asyncio.gather(*(self.recognizer.read(crops[index]) for index in order))
        readings = dict(zip(order, answers, strict=True))
        return to_lines(reading_order(boxes), boxes, [readings[index] for index in range(len(crops))])


def blue_green_red(image: Image.Image) -> Array:
    """The pixels as the models want them, upright as the camera meant them."""
    return cv2.cvtColor(np.asarray(ImageOps.exif_transpose(image).convert("RGB")), cv2.COLOR_RGB2BGR)
