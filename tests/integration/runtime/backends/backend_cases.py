"""One real model a backend and file format, made on the spot, and what its library says of it when asked directly."""

import importlib.util
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from trilith.core.tensor import DataType
from trilith.runtime.spec import DeclaredTensor

FP32 = DataType.FP32
WEIGHTS = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)


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


def table(rows, *, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(rows, 4)).astype(dtype)


def training_set(classes=2):
    x = table(200, seed=1)
    return x, np.digitize(x[:, 0] + x[:, 1], np.linspace(-1, 1, classes + 1)[1:-1])


def write_onnx(path):
    from onnx_models import save_mlp

    save_mlp(path)

    def direct(x):
        import onnxruntime

        y, total = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
        return {"y": y, "sum": total}

    return direct


def write_script(path):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor):
            y = torch.relu(self.inner(x))
            return y, y.sum(1, keepdim=True)

    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.script(Net().eval())
        module.save(str(path))

    def direct(x):
        with torch.no_grad():
            y, total = module(torch.tensor(x))
        return {"OUTPUT__0": y.numpy(), "OUTPUT__1": total.numpy()}

    return direct


def write_exported(path):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x):
            y = torch.relu(self.inner(x))
            return {"y": y, "sum": y.sum(1, keepdim=True)}

    torch.manual_seed(0)
    net = Net().eval()
    program = torch.export.export(net, (torch.ones(3, 4),), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    with path.open("wb") as opened:
        torch.export.save(program, opened)

    def direct(x):
        with torch.no_grad():
            return {name: value.numpy() for name, value in net(torch.tensor(x)).items()}

    return direct


def write_openvino(path):
    import openvino
    from openvino import opset13 as ops

    x = ops.parameter([-1, 4], np.float32, name="x")
    y = ops.relu(ops.matmul(x, ops.constant(WEIGHTS), False, False))
    x.output(0).get_tensor().set_names({"x"})
    y.output(0).get_tensor().set_names({"y"})
    model = openvino.Model([y], [x], "net")
    openvino.save_model(model, str(path), compress_to_fp16=False)
    compiled = openvino.Core().compile_model(model, "CPU")
    return lambda table: {"y": compiled(table)[0]}


def write_openvino_onnx(path):
    import openvino
    from onnx_models import save_mlp

    save_mlp(path)
    compiled = openvino.Core().compile_model(str(path), "CPU")
    return lambda table: {"y": compiled(table)["y"], "sum": compiled(table)["sum"]}


def write_skops(path):
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(*training_set(3))
    skops.io.dump(estimator, path)
    return lambda x: {"predict": estimator.predict(x)[:, None], "predict_proba": estimator.predict_proba(x)}


def write_joblib(path):
    import joblib
    from sklearn.ensemble import RandomForestRegressor

    x, y = training_set(4)
    estimator = RandomForestRegressor(5, n_jobs=-1, random_state=0).fit(x, y)
    joblib.dump(estimator, path)
    return lambda x: {"predict": estimator.predict(x)[:, None]}


def booster(**parameters):
    import xgboost

    x, y = training_set(parameters.get("num_class", 2))
    return xgboost.train({"nthread": 1, **parameters}, xgboost.DMatrix(x, y), 4)


def write_xgboost(path):
    trained = booster(objective="binary:logistic")
    trained.save_model(path)
    return lambda x: {"output__0": trained.inplace_predict(x)[:, None]}


def write_xgboost_classes(path):
    trained = booster(objective="multi:softprob", num_class=3)
    trained.save_model(path)
    return lambda x: {"output__0": trained.inplace_predict(x)}


def write_fil(path):
    trained = booster(objective="binary:logistic")
    trained.save_model(path)
    return lambda x: {"output__0": (trained.inplace_predict(x) > 0.3).astype(np.float32)[:, None]}


def write_lightgbm(path):
    import lightgbm

    x, y = training_set(3)
    options = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}
    trained = lightgbm.train(options, lightgbm.Dataset(x, y), 4)
    trained.save_model(path)
    return lambda x: {"output__0": trained.predict(x)}


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
