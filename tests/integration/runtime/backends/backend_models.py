"""Writes one real model a backend and file format, and gives what runs it directly with its library."""

import warnings

import numpy as np

WEIGHTS = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)


def table(rows, *, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(rows, 4)).astype(dtype)


def training_set(classes=2):
    x = table(200, seed=1)
    return x, np.digitize(x[:, 0] + x[:, 1], np.linspace(-1, 1, classes + 1)[1:-1])


def twice(x):
    return x * 2


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
