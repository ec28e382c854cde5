from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
for folder in ("ocr", "ocr_baseline"):
    if str(EXAMPLES / folder) not in sys.path:
        sys.path.insert(0, str(EXAMPLES / folder))


class ThreadedPipeline:
    """The pipeline in a thread of its own.

    ONNX Runtime makes the thread that opens the first session flush denormals to zero, and hypothesis (rightly) refuses
    to draw floats in such a thread.
    """

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        from pipeline import OcrPipeline

        self._thread = thread
        self._pipeline = thread.submit(OcrPipeline.open).result()

    def read(self, image):
        return self._thread.submit(self._pipeline.read, image).result()

    def read_file(self, encoded):
        return self._thread.submit(self._pipeline.read_file, encoded).result()


@pytest.fixture(scope="session")
def pipeline():
    with ThreadPoolExecutor(1) as thread:
        yield ThreadedPipeline(thread)
