"""Repositories with one model, `identity`, that gives its input back, FP32 [batch, N]: written when they are needed."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.peers.environment import DEFAULT_FOLDER

Backend = Literal["identity", "onnxruntime", "python"]
MODEL_FILE = Path(__file__).parent / "servers" / "triton_model.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How the model is configured.

    Attributes:
        batched: whether requests that wait run together (`dynamic_batching`).
        largest: rows of a batch at most.
        delay_ms: what each run takes beside its work.
    """

    batched: bool = True
    largest: int = 32
    delay_ms: int = 0

    def config(self, backend: Backend) -> str:
        """The `config.pbtxt`."""
        lines = [
            f'backend: "{backend}"',
            f"max_batch_size: {self.largest}",
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }',
            "instance_group { count: 1 kind: KIND_CPU }",
        ]
        if self.batched:
            lines.append("dynamic_batching { }")
        if self.delay_ms:
            lines.append(f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{self.delay_ms}" }} }}')
        return "\n".join(lines) + "\n"


def repository(backend: Backend, variant: Variant, folder: Path = DEFAULT_FOLDER) -> Path:
    """A repository under `folder` with this model, written if it is not there."""
    wait = f"-{variant.delay_ms}ms" if variant.delay_ms else ""
    name = f"identity-{backend}-{variant.largest}{'' if variant.batched else '-alone'}{wait}"
    kept = folder / "repositories" / name
    if _is_current(kept, backend, variant):
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as made:
        model = Path(made) / "new" / "identity"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(variant.config(backend), "utf-8")
        if backend == "python":
            shutil.copy(MODEL_FILE, model / "1" / "model.py")
        elif backend == "onnxruntime":
            _write_onnx(model / "1" / "model.onnx")
        shutil.rmtree(kept, ignore_errors=True)
        (Path(made) / "new").rename(kept)
    return kept


def _is_current(kept: Path, backend: Backend, variant: Variant) -> bool:
    config, source = kept / "identity" / "config.pbtxt", kept / "identity" / "1" / "model.py"
    if not config.exists() or config.read_text("utf-8") != variant.config(backend):
        return False
    return backend != "python" or source.read_bytes() == MODEL_FILE.read_bytes()


def _write_onnx(file: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    shape = ["batch", "n"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
        "identity",
        [helper.make_tensor_value_info("INPUT0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("OUTPUT0", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
