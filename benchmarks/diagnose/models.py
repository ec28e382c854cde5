"""Writes the models of the suite: small ONNX models that compute, and Python models that wait."""

from __future__ import annotations

from pathlib import Path

_WAITING = """
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({{"name": "x", "data_type": "TYPE_FP32", "dims": [1]}})
        config.add_output({{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}})
        config.set_max_batch_size({largest})
        return config

    def execute(self, requests):
        time.sleep({fixed_s} + {each_s} * len(requests) + {square_s} * len(requests) ** 2)
        rows = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", row)]) for row in rows]
"""


def write_waiting(
    root: Path, name: str, *, largest: int, fixed_s: float, each_s: float, square_s: float = 0.0, instances: int = 1
) -> None:
    """A Python model that takes `fixed_s + each_s * n + square_s * n * n` seconds for n requests, and no processor."""
    folder = root / name / "1"
    folder.mkdir(parents=True)
    source = _WAITING.format(largest=largest, fixed_s=fixed_s, each_s=each_s, square_s=square_s)
    (folder / "model.py").write_text(source)
    batching = "batching: {adaptive: false}\n" if largest > 1 else ""
    (root / name / "model.yaml").write_text(f"backend: python\ninstances: {instances}\n{batching}")


def write_computing(root: Path, name: str, *, layers: int, width: int = 384, rows: int = 96, config: str = "") -> None:
    """An ONNX model of matrix products that fit into a cache."""
    steps, last = [], "wide"
    for layer in range(layers):
        steps.append(f"p{layer} = MatMul({last}, weight)")
        steps.append(f"n{layer} = Tanh(p{layer})")
        last = f"n{layer}"
    body = "\n".join(steps)
    _write_onnx(
        root,
        name,
        f"""<ir_version: 8, opset_import: ["": 17]>
        computing (float[n, 1] x) => (float[n, 1] y)
        <int64[2] shape = {{{rows}, {width}}}, int64[2] square = {{{width}, {width}}}, int64[2] axes = {{0, 1}}>
        {{
            small = Constant<value_float = 0.01>()
            weight = Expand(small, square)
            first = ReduceMax<keepdims = 0>(x)
            wide = Expand(first, shape)
            {body}
            top = ReduceMax<keepdims = 0>({last})
            y = Add(x, top)
        }}""",
        config,
    )


def write_streaming(root: Path, name: str, *, megabytes: int, config: str = "") -> None:
    """An ONNX model that passes over more memory than any cache holds, and computes nearly nothing."""
    _write_onnx(
        root,
        name,
        f"""<ir_version: 8, opset_import: ["": 17]>
        streaming (float[n, 1] x) => (float[n, 1] y)
        <int64[1] length = {{{megabytes * 262_144}}}>
        {{
            first = ReduceMax<keepdims = 0>(x)
            long = Expand(first, length)
            more = Add(long, first)
            again = Add(more, long)
            top = ReduceMax<keepdims = 0>(again)
            y = Add(x, top)
        }}""",
        config,
    )


def _write_onnx(root: Path, name: str, text: str, config: str) -> None:
    import onnx
    import onnx.parser

    folder = root / name / "1"
    folder.mkdir(parents=True)
    onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
    (root / name / "model.yaml").write_text(f"backend: onnxruntime\nmax_batch_size: 1\n{config}")
