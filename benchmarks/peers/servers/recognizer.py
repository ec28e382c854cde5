"""What every peer's `recognize` does: one crop as a .npy body, the model's most probable class for each step.

The harness names the model's file and its session options in the environment, the same for every peer.
"""

from __future__ import annotations

import io
import os
import pathlib

import numpy as np
import onnxruntime


class Recognizer:
    """One session; ONNX Runtime lets several threads run it at once."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        self._session = onnxruntime.InferenceSession(
            os.environ["RECOGNIZER_MODEL"], options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name

    def recognize(self, crop: bytes | bytearray | pathlib.Path) -> list[int]:
        """The classes of one crop, float32 [1, 3, 48, W] as .npy. Blocks; the model itself holds no lock."""
        tensor = np.load(crop if isinstance(crop, pathlib.Path) else io.BytesIO(crop), allow_pickle=False)
        (probabilities,) = self._session.run(None, {self._input: tensor})
        return np.asarray(probabilities)[0].argmax(-1).tolist()
