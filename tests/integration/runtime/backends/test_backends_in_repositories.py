"""Repositories as Triton has them lead to the same backends: `platform`, `backend`, file names, config.pbtxt."""

import asyncio

import numpy as np
import pytest
import uvloop
from backend_cases import need
from backend_models import table, write_fil, write_lightgbm, write_openvino, write_script

from trilith.runtime import InferRequest, Runtime

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")

TORCH = """
platform: "pytorch_libtorch"
max_batch_size: 8
input [{ name: "INPUT__0" data_type: TYPE_FP32 dims: [ 4 ] }]
output [
  { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 3 ] },
  { name: "OUTPUT__1" data_type: TYPE_FP32 dims: [ 1 ] }
]
instance_group [{ kind: KIND_CPU count: 2 }]
dynamic_batching { }
parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }
"""
WITHOUT_BATCHES = """
backend: "pytorch"
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }]
output [{ name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ -1, 3 ] }]
"""
OPENVINO = """
backend: "openvino"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ 3 ] }]
parameters { key: "CPU_THREADS_NUM" value { string_value: "1" } }
"""
FIL = """
backend: "fil"
max_batch_size: 32768
input [{ name: "input__0" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }]
parameters [
  { key: "model_type" value: { string_value: "xgboost_json" } },
  { key: "output_class" value: { string_value: "true" } },
  { key: "threshold" value: { string_value: "0.3" } },
  { key: "storage_type" value: { string_value: "AUTO" } }
]
dynamic_batching {}
"""
FIL_LIGHTGBM = """
backend: "fil"
max_batch_size: 64
input [{ name: "input__0" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "output__0" data_type: TYPE_FP32 dims: [ 3 ] }]
parameters [{ key: "model_type" value: { string_value: "lightgbm" } }]
"""


@pytest.mark.parametrize(
    ("config", "filename", "write", "library", "names", "platform"),
    [
        (TORCH, "model.pt", write_script, "torch", ("INPUT__0", "OUTPUT__1"), "pytorch_libtorch"),
        (WITHOUT_BATCHES, "model.pt", write_script, "torch", ("x", "OUTPUT__0"), "pytorch_libtorch"),
        (OPENVINO, "model.xml", write_openvino, "openvino", ("x", "y"), ""),
        (FIL, "xgboost.json", write_fil, "xgboost", ("input__0", "output__0"), ""),
        (FIL_LIGHTGBM, "model.txt", write_lightgbm, "lightgbm", ("input__0", "output__0"), ""),
        ('default_model_filename: "net.txt"', "net.txt", write_lightgbm, "lightgbm", ("input__0", "output__0"), ""),
    ],
    ids=["platform", "no batches", "openvino", "fil", "fil of lightgbm", "suffix"],
)
def test_a_repository_of_triton_s(tmp_path, config, filename, write, library, names, platform):
    need(library, {"torch": "pytorch"}.get(library, library))
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    direct = write(folder / filename)
    (folder.parent / "config.pbtxt").write_text(config)

    async def main():
        async with Runtime(tmp_path) as runtime:
            handle = runtime.model("m")
            assert (handle.reason, handle.platform) == ("", platform)
            assert handle.config_proto().default_model_filename == filename
            x = table(3)
            answers = await asyncio.gather(
                *(runtime.infer(InferRequest(model="m", inputs={names[0]: x}, outputs=(names[1],))) for _ in range(3))
            )
            for answer in answers:
                np.testing.assert_allclose(answer.outputs[names[1]], direct(x)[names[1]], rtol=1e-5)

    uvloop.run(main())


def test_instances_of_the_identity_backend_take_their_own_time(tmp_path):
    """Instance 1 of 2 takes 40 times as long: with both busy, the quick one answers the others."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.yaml").write_text(
        "backend: identity\nbatching: false\ninstances: 2\n"
        "parameters: {execute_delay_ms: 5, instance_wise_delay_multiplier: 40}\n"
    )

    async def main():
        async with Runtime(tmp_path) as runtime:
            request = InferRequest(model="m", inputs={"INPUT0": np.zeros((1, 1), np.float32)})
            order = []

            async def ask(number):
                await runtime.infer(request)
                order.append(number)

            await asyncio.gather(*(ask(number) for number in range(6)))
            assert order[-1] in (0, 1)  # the slow instance took one of the first two, and was the last to answer
            assert sorted(order) == list(range(6))

    uvloop.run(main())
