"""A model repository with one model that gives its input back, FP32 [batch, 4]: written when it is needed."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper


def write_repository(folder: Path) -> Path:
    """Writes `identity/1/model.onnx` under `folder`, if it is not there; returns the folder."""
    file = folder / "identity" / "1" / "model.onnx"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        shape = ["batch", 4]
        graph = helper.make_graph(
            [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
            "identity",
            [helper.make_tensor_value_info("INPUT0", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("OUTPUT0", TensorProto.FLOAT, shape)],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return folder
