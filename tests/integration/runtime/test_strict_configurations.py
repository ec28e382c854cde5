"""`--disable-auto-complete-config` and `--backend-config`, with real models."""

import asyncio

import numpy as np
import pytest
from onnx_models import save_mlp

from trilith.core.request import InferRequest
from trilith.runtime import Runtime, RuntimeConfig

TENSORS = """
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 3 }
output { name: "sum" data_type: TYPE_FP32 dims: 1 }
"""
MODEL_PY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(16)
        config.add_output({"name": "late", "data_type": "TYPE_FP32", "dims": [1]})
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", r.inputs()[0].as_numpy())]) for r in requests]
"""


def loaded(root, name="m", **config):
    async def main():
        async with Runtime(root, config=RuntimeConfig(**config)) as runtime:
            model = runtime.model(name)
            if not model.ready:
                return model.reason
            (size,) = [model.max_batch_size]
            rows = np.ones((size, 4) if size else 4, np.float32)
            answer = await runtime.infer(InferRequest(model=name, inputs={"x": rows}))
            return size, sorted(answer.outputs)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (None, "model 'm': {folder}: must hold a config.pbtxt or model.yaml, as"),
        ("max_batch_size: 8", "{folder}/config.pbtxt: input; output: must be specified, as"),
        (
            'max_batch_size: 8 input { name: "x" dims: 4 } output { name: "y" data_type: TYPE_FP32 }',
            "{folder}/config.pbtxt: input 'x': data_type; output 'y': dims: must be specified, as",
        ),
        (f"max_batch_size: 8 {TENSORS}", None),
    ],
)
def test_everything_must_be_said(tmp_path, text, missing):
    save_mlp(tmp_path / "m" / "1" / "model.onnx")
    if text is not None:
        (tmp_path / "m" / "config.pbtxt").write_text(text)
    found = loaded(tmp_path, disable_auto_complete_config=True)
    if missing is None:
        assert found == (8, ["sum", "y"])
    else:
        assert missing.format(folder=tmp_path / "m") in found
        assert found.endswith("the server was started with --disable-auto-complete-config")
        # which is all that is wrong with it
        assert loaded(tmp_path)[1] in (["sum", "y"], ["y"])


def test_a_python_model_is_not_asked(tmp_path):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(MODEL_PY)
    (tmp_path / "m" / "config.pbtxt").write_text(
        'backend: "python" input { name: "x" data_type: TYPE_FP32 dims: 4 } '
        'output { name: "y" data_type: TYPE_FP32 dims: 4 }'
    )
    assert loaded(tmp_path, disable_auto_complete_config=True) == (0, ["y"])


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ((), 4),
        (("default-max-batch-size=6",), 6),
        (("onnxruntime,default-max-batch-size=7", "default-max-batch-size=6"), 7),
        (("pytorch,default-max-batch-size=7",), 4),
    ],
)
def test_the_batch_size_of_models_that_say_none(tmp_path, settings, size):
    save_mlp(tmp_path / "m" / "1" / "model.onnx")
    assert loaded(tmp_path, backend_config=settings) == (size, ["sum", "y"])


def test_what_has_no_effect_stands_in_the_log(tmp_path, caplog):
    save_mlp(tmp_path / "m" / "1" / "model.onnx")
    (tmp_path / "m" / "config.pbtxt").write_text("max_batch_size: 2")
    settings = ("python,shm-default-byte-size=1", "default-max-batch-size=6")
    assert loaded(tmp_path, backend_config=settings)[0] == 2
    assert "--backend-config python,shm-default-byte-size=1 has no effect: large tensors travel in" in caplog.text
