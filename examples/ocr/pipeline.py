"""The whole pipeline in one process and without a server: what the services are compared with.

It runs the same functions as the services in app.py, on the same models with the same session options, so a difference
between the two is the price (or the gain) of serving, and of nothing else.

Rule: sessions are shared by threads (ONNX Runtime allows it); `OcrPipeline` holds no state of a request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import cv2
import detection
import numpy as np
import onnxruntime
import recognition
from crops import cut
from geometry import Array, reading_order
from lines import Line, to_lines
from recognition import Reading

BATCH_SIZE: Final = 4
Run = Callable[[Array], Array]


@dataclass(slots=True)
class StageTimes:
    """Seconds spent in each stage, added up over the calls that it was given to."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, stage: str, since: float) -> float:
        """Books the time since `since` to `stage`; returns now."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - since
        return now


def tuned_options(threads: int = 1) -> onnxruntime.SessionOptions:
    """Session options for throughput: few threads a session, no spinning, denormal numbers as zero.

    A tenth of the detector's weights are denormals, and arithmetic on them is 3.5 times as slow. ONNX Runtime sets the
    processor's flag when the first session of the process is made, so every session must ask for it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return options


def open_session(name: str, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session of a model in models/."""
    from model_files import model_path  # needs Trilith, which programs with sessions of their own may not have

    return onnxruntime.InferenceSession(str(model_path(name)), options, providers=["CPUExecutionProvider"])


def runner(session: onnxruntime.InferenceSession) -> Run:
    """The session as a function from its one input to its one output."""
    name = session.get_inputs()[0].name

    def run(batch: Array) -> Array:
        return np.asarray(session.run(None, {name: batch})[0])

    return run


class OcrPipeline:
    """Reads pages with two models. Safe to call from several threads at once."""

    def __init__(self, detect: Run, recognise: Run, characters: tuple[str, ...], batch_size: int = BATCH_SIZE) -> None:
        self._detect = detect
        self._recognise = recognise
        self._characters = characters
        self._batch_size = batch_size

    @classmethod
    def open(
        cls, options: Callable[[], onnxruntime.SessionOptions] = tuned_options, batch_size: int = BATCH_SIZE
    ) -> OcrPipeline:
        """Loads both models.

        Args:
            options: makes the session options of each model.
            batch_size: most crops that the recogniser gets at once.

        Raises:
            SetupError: a model cannot be fetched.
        """
        detector, recogniser = open_session("ocr-det", options()), open_session("ocr-rec", options())
        characters = recognition.classes(recogniser.get_modelmeta().custom_metadata_map)
        return cls(runner(detector), runner(recogniser), characters, batch_size)

    def read_file(self, encoded: bytes, times: StageTimes | None = None) -> list[Line]:
        """The lines of an encoded image (PNG, JPEG ...).

        Raises:
            ValueError: the bytes are no image.
        """
        started = time.perf_counter()
        image = self.decode(encoded)
        times = times or StageTimes()
        times.add("decode image", started)
        return self.read(image, times)

    @staticmethod
    def decode(encoded: bytes) -> Array:
        """The pixels of an encoded image, blue-green-red uint8 [height, width, 3].

        Raises:
            ValueError: the bytes are no image.
        """
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR) if encoded else None
        if image is None:
            raise ValueError(f"{len(encoded)} bytes that are no image that OpenCV can read")
        return image

    def read(self, image: Array, times: StageTimes | None = None) -> list[Line]:
        """The lines of a blue-green-red uint8 image [height, width, 3], in reading order."""
        return self.read_several([image], times)[0]

    def read_several(self, images: Sequence[Array], times: StageTimes | None = None) -> list[list[Line]]:
        """The lines of several images, each as for `read`; their crops go through the recogniser together."""
        times = times or StageTimes()
        pages = []
        crops: list[Array] = []
        for image in images:
            now = time.perf_counter()
            batch = detection.to_input(image)
            now = times.add("detection input", now)
            output = self._detect(batch)
            now = times.add("detection model", now)
            boxes, _ = detection.from_output(output, *image.shape[:2])
            rows = reading_order(boxes)
            now = times.add("detection output", now)
            pages.append((rows, boxes, len(crops)))
            crops += [cut(image, box) for box in boxes]
            times.add("crops", now)
        readings = self._recognised(crops, times)
        return [to_lines(rows, boxes, readings[first : first + len(boxes)]) for rows, boxes, first in pages]

    def _recognised(self, crops: list[Array], times: StageTimes) -> list[Reading]:
        readings: dict[int, Reading] = {}
        for chosen in recognition.batches(crops, self._batch_size):
            now = time.perf_counter()
            batch = recognition.to_input([crops[index] for index in chosen])
            now = times.add("recognition input", now)
            output = self._recognise(batch)
            now = times.add("recognition model", now)
            best, chance = recognition.best_classes(output)
            readings.update(zip(chosen, recognition.from_output(best, chance, self._characters), strict=True))
            times.add("recognition output", now)
        return [readings[index] for index in range(len(crops))]
