"""One real model a backend and file format, made on the spot, and what its library says of it when asked directly."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from backend_models import (
    write_exported,
    write_fil,
    write_joblib,
    write_lightgbm,
    write_onnx,
    write_openvino,
    write_openvino_onnx,
    write_script,
    write_skops,
    write_xgboost,
    write_xgboost_classes,
)

from trilith.core.tensor import DataType
from trilith.runtime.spec import DeclaredTensor

FP32 = DataType.FP32


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind of model.

    `write` saves one at a path, and gives a function that runs it directly: outputs by name, from a table [n, 4].
    `holds` is the type that a loaded model keeps in memory.
    """

    name: str
    backend: str
    filename: str
    library: str
    write: Callable
    holds: tuple[str, str]
    input: str = "input__0"
    datatype: DataType = FP32
    outputs: tuple[tuple[str, DataType, int], ...] = (("output__0", FP32, 1),)
    declares: dict = field(default_factory=dict)
    yaml: str = ""


def need(library, extra):
    """Skips without the library. In CI nothing skips but what no lock can name: PyTorch, see the Makefile."""
    if importlib.util.find_spec(library) is None and (library == "torch" or not os.environ.get("CI")):
        pytest.skip(f"needs {library}: pip install 'trilith[{extra}]'")


Y_AND_SUM = (("y", FP32, 3), ("sum", FP32, 1))
SCRIPT_YAML = """
max_batch_size: 8
inputs: [{name: INPUT__0, datatype: FP32, dims: [4]}]
outputs: [{name: OUTPUT__0, datatype: FP32, dims: [3]}, {name: OUTPUT__1, datatype: FP32, dims: [1]}]
"""
SCRIPT_SPEC = {
    "max_batch_size": 8,
    "inputs": (DeclaredTensor(name="INPUT__0", datatype=FP32, dims=(4,)),),
    "outputs": tuple(
        DeclaredTensor(name=f"OUTPUT__{at}", datatype=FP32, dims=(width,)) for at, width in enumerate((3, 1))
    ),
}

CASES = (
    Case(
        name="onnx",
        backend="onnxruntime",
        filename="model.onnx",
        library="onnxruntime",
        write=write_onnx,
        holds=("onnxruntime", "InferenceSession"),
        input="x",
        outputs=Y_AND_SUM,
    ),
    Case(
        name="torchscript",
        backend="pytorch",
        filename="model.pt",
        library="torch",
        write=write_script,
        holds=("torch.jit", "ScriptModule"),
        input="INPUT__0",
        outputs=(("OUTPUT__0", FP32, 3), ("OUTPUT__1", FP32, 1)),
        declares=SCRIPT_SPEC,
        yaml=SCRIPT_YAML,
    ),
    Case(
        name="torch-export",
        backend="pytorch",
        filename="model.pt2",
        library="torch",
        write=write_exported,
        holds=("torch.fx", "GraphModule"),
        input="x",
        outputs=Y_AND_SUM,
    ),
    Case(
        name="openvino-ir",
        backend="openvino",
        filename="model.xml",
        library="openvino",
        write=write_openvino,
        holds=("openvino", "CompiledModel"),
        input="x",
        outputs=(("y", FP32, 3),),
    ),
    Case(
        name="openvino-onnx",
        backend="openvino",
        filename="model.onnx",
        library="openvino",
        write=write_openvino_onnx,
        holds=("openvino", "CompiledModel"),
        input="x",
        outputs=Y_AND_SUM,
        yaml="backend: openvino",
    ),
    Case(
        name="skops",
        backend="sklearn",
        filename="model.skops",
        library="skops",
        write=write_skops,
        holds=("sklearn.pipeline", "Pipeline"),
        datatype=DataType.FP64,
        outputs=(("predict", DataType.INT64, 1), ("predict_proba", DataType.FP64, 3)),
    ),
    Case(
        name="joblib",
        backend="sklearn",
        filename="model.joblib",
        library="sklearn",
        write=write_joblib,
        holds=("sklearn.ensemble", "RandomForestRegressor"),
        datatype=DataType.FP64,
        outputs=(("predict", DataType.FP64, 1),),
        declares={"parameters": {"allow_pickle": "true"}},
        yaml="parameters: {allow_pickle: true}",
    ),
    Case(
        name="xgboost-json",
        backend="xgboost",
        filename="model.json",
        library="xgboost",
        write=write_xgboost,
        holds=("xgboost", "Booster"),
    ),
    Case(
        name="xgboost-ubj",
        backend="xgboost",
        filename="model.ubj",
        library="xgboost",
        write=write_xgboost_classes,
        holds=("xgboost", "Booster"),
        outputs=(("output__0", FP32, 3),),
    ),
    Case(
        name="fil-xgboost",
        backend="fil",
        filename="xgboost.json",
        library="xgboost",
        write=write_fil,
        holds=("xgboost", "Booster"),
        declares={"parameters": {"model_type": "xgboost_json", "output_class": "true", "threshold": "0.3"}},
        yaml="backend: fil\nparameters: {model_type: xgboost_json, output_class: true, threshold: 0.3}",
    ),
    Case(
        name="lightgbm",
        backend="lightgbm",
        filename="model.txt",
        library="lightgbm",
        write=write_lightgbm,
        holds=("lightgbm", "Booster"),
        outputs=(("output__0", DataType.FP64, 3),),
    ),
)
EXTRAS = {"onnxruntime": "onnx", "torch": "pytorch", "skops": "sklearn"}


def needs(case):
    need(case.library, EXTRAS.get(case.library, case.library))
