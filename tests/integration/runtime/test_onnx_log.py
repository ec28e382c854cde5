"""ONNX Runtime writes no lines of its own form into the log: what it says is raised, and told once by us."""

import logging

import numpy as np
import onnx
import onnx.parser
import pytest

from trilith.core.request import InferRequest
from trilith.errors import ModelError
from trilith.runtime import Runtime

SHAPES = """
<ir_version: 8, opset_import: ["": 17]>
g (float[n, l] x) => (float[n, k] y)
{
    shape = Constant<value_ints = [2, 3]>()
    y = Reshape(x, shape)
}
"""


@pytest.mark.parametrize("session", ["{}", "{memory_arena: true}"])
def test_a_run_that_fails_is_told_by_us_alone(repository, run, capfd, caplog, session):
    folder = repository / "m" / "1"
    folder.mkdir(parents=True)
    onnx.save(onnx.parser.parse_model(SHAPES), folder / "model.onnx")
    (repository / "m" / "model.yaml").write_text(f"session: {session}\n")

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(ModelError, match="Reshape"):
                await runtime.infer(InferRequest(model="m", inputs={"x": np.ones((1, 4), np.float32)}))

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "onnxruntime:" not in capfd.readouterr().err
