"""OpenVINO: datatypes, shapes, threads and streams, Triton's parameters."""

import re

import numpy as np
import pytest
from backend_cases import need
from backend_models import table, write_openvino

from trilith.core.tensor import NUMPY_OF, DataType, TensorSpec
from trilith.errors import InvalidConfig, InvalidInput, SetupError
from trilith.runtime import Batch, ModelFile, ModelSpec
from trilith.runtime.backends.openvino import OpenvinoBackend
from trilith.runtime.spec import InstanceConfig, SessionConfig


@pytest.fixture(scope="module", autouse=True)
def openvino():
    need("openvino", "openvino")
    import openvino

    return openvino


def load(path, **fields):
    spec = ModelSpec(name="m", backend="openvino", **fields)
    backend = OpenvinoBackend(ModelFile(model="m", version=1, path=path, spec=spec))
    return backend, backend.load()


def run(backend, x, *outputs):
    return backend.run(Batch(inputs={"x": x}, outputs=outputs, rows=len(x), requests=[]))


def save_reshape(openvino, path, word, shape):
    """y = x reshaped to [-1, 2], of one datatype."""
    from openvino import opset13 as ops

    x = ops.parameter(shape, getattr(openvino.Type, word), name="x")
    y = ops.reshape(x, ops.constant(np.array([-1, 2], np.int64)), False)
    x.output(0).get_tensor().set_names({"x"})
    y.output(0).get_tensor().set_names({"y"})
    openvino.save_model(openvino.Model([y], [x], "net"), str(path), compress_to_fp16=False)


WORDS = {
    "boolean": "BOOL",
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "u64": "UINT64",
    "i8": "INT8",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "f16": "FP16",
    "bf16": "BF16",
    "f64": "FP64",
}


@pytest.mark.parametrize("word", WORDS)
def test_every_datatype_crosses_unchanged(openvino, tmp_path, word):
    save_reshape(openvino, tmp_path / "model.xml", word, [-1, 2])
    backend, signature = load(tmp_path / "model.xml")
    datatype = DataType(WORDS[word])
    assert signature.inputs == (TensorSpec(name="x", datatype=datatype, shape=(-1, 2)),)
    x = np.array([[1, 0], [77, 3]]).astype(NUMPY_OF[datatype])
    if word == "bf16":
        x = np.array([[0x3F80, 0], [0x4040, 0xC000]], np.uint16)  # 1, 0, 3, -2: denormals would be flushed
    x.flags.writeable = False
    (y,) = run(backend, x, "y")
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_text_crosses_as_bytes(openvino, tmp_path):
    save_reshape(openvino, tmp_path / "model.xml", "string", [-1, 2])
    backend, signature = load(tmp_path / "model.xml")
    assert signature.inputs[0].datatype is DataType.BYTES
    (y,) = run(backend, np.array([[b"a", "längeres".encode()]], object), "y")
    assert y.tolist() == [[b"a", "längeres".encode()]]
    with pytest.raises(InvalidInput, match="UTF-8"):
        run(backend, np.array([[b"a", b"\xff"]], object), "y")


def test_shapes_and_names_that_the_file_leaves_open(openvino, tmp_path):
    save_reshape(openvino, tmp_path / "model.xml", "f32", [3, 4])
    text = (tmp_path / "model.xml").read_text()
    (tmp_path / "model.xml").write_text(re.sub(r' names="[^"]*"| output_names="[^"]*"', "", text))
    _, signature = load(tmp_path / "model.xml")
    assert [(spec.name, spec.shape) for spec in signature.inputs] == [("input_0", (3, 4))]
    assert [(spec.name, spec.shape) for spec in signature.outputs] == [("output_0", (6, 2))]
    save_reshape(openvino, tmp_path / "any.xml", "f32", openvino.PartialShape.dynamic())
    with pytest.raises(SetupError, match=r"any\.xml: OpenVINO cannot load this file: .*dynamic rank"):
        load(tmp_path / "any.xml")
    save_reshape(openvino, tmp_path / "small.xml", "u4", [-1, 2])
    with pytest.raises(SetupError, match="input 'x' has type u4"):
        load(tmp_path / "small.xml")


def test_weights_of_another_size_or_none(tmp_path):
    write_openvino(tmp_path / "model.xml")
    weights = tmp_path / "model.bin"
    for content in (weights.read_bytes()[:10], b""):
        weights.write_bytes(content)
        with pytest.raises(SetupError, match=r"model\.xml: OpenVINO cannot load this file: .*weights"):
            load(tmp_path / "model.xml")
    weights.unlink()
    with pytest.raises(SetupError, match=r"model\.xml: OpenVINO cannot load this file: .*weights"):
        load(tmp_path / "model.xml")


def test_a_file_that_is_replaced_changes_nothing_that_runs(tmp_path):
    direct = write_openvino(tmp_path / "model.xml")
    backend, _ = load(tmp_path / "model.xml")
    weights = tmp_path / "model.bin"
    weights.write_bytes(bytes(weights.stat().st_size))
    np.testing.assert_allclose(run(backend, table(2), "y")[0], direct(table(2))["y"], rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "CPU_DENORMALS_OPTIMIZATION": True}),
        ({"instances": InstanceConfig(count=2)}, {"NUM_STREAMS": 2, "INFERENCE_NUM_THREADS": 2}),
        ({"instances": InstanceConfig(count=2, share=False)}, {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1}),
        ({"session": SessionConfig(denormal_as_zero=False)}, {"CPU_DENORMALS_OPTIMIZATION": False}),
        ({"parameters": {"CPU_THREADS_NUM": "2", "CPU_THROUGHPUT_STREAMS": "2"}}, {"INFERENCE_NUM_THREADS": 2}),
        ({"parameters": {"ENFORCE_BF16": "NO", "CPU_BIND_THREAD": "NO"}}, {"ENABLE_CPU_PINNING": False}),
        ({"parameters": {"PERFORMANCE_HINT": "LATENCY"}}, {"NUM_STREAMS": 1}),
    ],
    ids=str,
)
def test_threads_and_properties(tmp_path, fields, expected):
    write_openvino(tmp_path / "model.xml")
    backend, _ = load(tmp_path / "model.xml", **fields)
    assert {name: backend._compiled.get_property(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"NONSENSE": "1"}, "NONSENSE"),
        ({"TARGET_DEVICE": "GPU"}, "GPU"),
        ({"CPU_BIND_THREAD": "MAYBE"}, "CPU_BIND_THREAD: must be one of YES, NUMA, NO"),
        ({"ENFORCE_BF16": "MAYBE"}, "ENFORCE_BF16: must be true or false"),
        ({"SKIP_DYNAMIC_BATCHSIZE": "YES"}, "max_batch_size 0"),
        ({"INFERENCE_NUM_THREADS": "many"}, "INFERENCE_NUM_THREADS"),
    ],
)
def test_parameters_that_mean_nothing(tmp_path, parameters, says):
    write_openvino(tmp_path / "model.xml")
    with pytest.raises(InvalidConfig, match=says):
        load(tmp_path / "model.xml", parameters=parameters)


def test_the_metadata_of_an_onnx_file_is_the_models(tmp_path):
    import onnx
    from onnx_models import save_mlp

    path = tmp_path / "model.onnx"
    save_mlp(path)
    assert load(path)[1].metadata == {}
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"character": "a\nb\u2028c", "author": "somebody"})
    onnx.save(model, path)
    assert load(path)[1].metadata == {"character": "a\nb\u2028c", "author": "somebody"}
