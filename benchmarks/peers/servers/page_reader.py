"""What every peer's `read` does: the pipeline of examples/ocr, with the session options of the tuned gRPC server.

The harness names the models' files in the environment, the same for every peer, and the folder of the example. Nothing
of Trilith is imported: the example's functions need NumPy, OpenCV and ONNX Runtime alone.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Any

import onnxruntime

sys.path.insert(0, os.environ["OCR_FOLDER"])

import cv2
import recognition
from pipeline import OcrPipeline, runner, tuned_options


class PageReader:
    """Both models, a session each. Several threads may read at once: sessions are shared, and hold no lock."""

    def __init__(self) -> None:
        cv2.setNumThreads(1)
        detector, recogniser = _session("OCR_DETECTOR_MODEL"), _session("OCR_RECOGNIZER_MODEL")
        characters = recognition.classes(recogniser.get_modelmeta().custom_metadata_map)
        self._pipeline = OcrPipeline(runner(detector), runner(recogniser), characters)

    def read(self, encoded: bytes) -> list[dict[str, Any]]:
        """The lines of an encoded image. Blocks."""
        return self.read_several([encoded])[0]

    def read_several(self, encoded: list[bytes]) -> list[list[dict[str, Any]]]:
        """The lines of several images, whose crops go through the recogniser together."""
        pages = self._pipeline.read_several([self._pipeline.decode(one) for one in encoded])
        return [[dataclasses.asdict(line) for line in lines] for lines in pages]


def _session(variable: str) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(os.environ[variable], tuned_options(), providers=["CPUExecutionProvider"])
