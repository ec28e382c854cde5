"""The backends that come with Trilith, by the names that configurations use, and those beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from trilith.runtime.backends.folder import BackendsOfFolder
from trilith.runtime.backends.port import Backend, BackendKind, ModelControl, ModelFile, RequestBackend
from trilith.runtime.backends.python.counted import CountedByModels

Control = Callable[[], ModelControl] | None


def all_backends(
    control: Control = None, *, further: Mapping[str, BackendKind] | None = None, folder: Path | None = None
) -> Mapping[str, BackendKind]:
    """The backends that come with Trilith, `further` ones that go before them, and those of a folder behind them.

    `control`: see `builtin_backends`; `folder`: see `BackendsOfFolder`, or None.
    """
    counted = CountedByModels()
    given = {**builtin_backends(control, counted), **(further or {})}
    return BackendsOfFolder(given, folder, functools.partial(_python_based, counted, control))


def builtin_backends(control: Control = None, counted: CountedByModels | None = None) -> dict[str, BackendKind]:
    """A new registry; a `Runtime` may be given further ones. Where a file's name fits several, the first has it.

    `control`: the runtime's models, for models that load others; without it they cannot. `counted`: takes what models
    count for themselves.
    """
    counted = counted or CountedByModels()
    return {
        "onnxruntime": BackendKind(create=_onnxruntime, filename="model.onnx", platform="onnxruntime_onnx"),
        "pytorch": BackendKind(
            create=_pytorch, filename="model.pt", alternatives=("model.pt2",), platform="pytorch_libtorch"
        ),
        "openvino": BackendKind(create=_openvino, filename="model.xml", alternatives=("model.onnx",)),
        "sklearn": BackendKind(
            create=_sklearn, filename="model.skops", alternatives=("model.joblib", "model.pkl"), check=_check_sklearn
        ),
        "xgboost": BackendKind(create=_xgboost, filename="model.json", alternatives=("model.ubj",)),
        "lightgbm": BackendKind(create=_lightgbm, filename="model.txt"),
        "fil": BackendKind(
            create=_fil,
            filename="xgboost.model",
            alternatives=("xgboost.json", "xgboost.ubj", "model.txt"),
            check=_check_fil,
        ),
        "identity": BackendKind(create=_identity),
        "python": BackendKind(
            create=functools.partial(_python, counted, control, None),
            filename="model.py",
            check=functools.partial(_check_python, None),
            metrics=counted.snapshots,
        ),
    }


def _python_based(counted: CountedByModels, control: Control, script: Path) -> BackendKind:
    """A backend that is a script. What its models count is told with that of Python models."""
    return BackendKind(
        create=functools.partial(_python, counted, control, script),
        check=functools.partial(_check_python, script),
        script=script,
    )


def _python(counted: CountedByModels, control: Control, script: Path | None, file: ModelFile) -> RequestBackend:
    from trilith.runtime.backends.python.backend import PythonBackend

    return PythonBackend(file, counted, control, script)


def _onnxruntime(file: ModelFile) -> Backend:
    from trilith.runtime.backends.onnxruntime import OnnxRuntimeBackend

    return OnnxRuntimeBackend(file)


def _pytorch(file: ModelFile) -> Backend:
    from trilith.runtime.backends.pytorch import PytorchBackend

    return PytorchBackend(file)


def _openvino(file: ModelFile) -> Backend:
    from trilith.runtime.backends.openvino import OpenvinoBackend

    return OpenvinoBackend(file)


def _sklearn(file: ModelFile) -> Backend:
    from trilith.runtime.backends.sklearn import SklearnBackend

    return SklearnBackend(file)


def _xgboost(file: ModelFile) -> Backend:
    from trilith.runtime.backends.xgboost import XgboostBackend

    return XgboostBackend(file)


def _lightgbm(file: ModelFile) -> Backend:
    from trilith.runtime.backends.lightgbm import LightgbmBackend

    return LightgbmBackend(file)


def _fil(file: ModelFile) -> Backend:
    from trilith.runtime.backends.fil import FilBackend

    return FilBackend(file)


def _identity(file: ModelFile) -> Backend:
    from trilith.runtime.backends.identity import IdentityBackend

    return IdentityBackend(file)


def _check_sklearn(file: ModelFile) -> None:
    from trilith.runtime.backends.sklearn import check_sklearn

    check_sklearn(file)


def _check_fil(file: ModelFile) -> None:
    from trilith.runtime.backends.fil import check_fil

    check_fil(file)


def _check_python(script: Path | None, file: ModelFile) -> None:
    from trilith.runtime.backends.python.loading import life_limits
    from trilith.runtime.backends.python.packed import find_packed
    from trilith.runtime.backends.python.source import check_source

    life_limits(file)
    find_packed(file, script)
    if (path := script or file.path) is not None:
        check_source(path)
