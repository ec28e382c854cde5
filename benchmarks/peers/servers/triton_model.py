"""A `model.py` of Triton's Python backend, which Triton and Trilith serve unchanged: it gives its input back."""

from __future__ import annotations

import json
import time
from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        self._delay_s = float(parameters.get("execute_delay_ms", {"string_value": "0"})["string_value"]) / 1e3

    def execute(self, requests: list[Any]) -> list[Any]:
        responses = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", tensor.as_numpy())]))
        if self._delay_s:
            time.sleep(self._delay_s)
        return responses
