"""What Triton's FIL backend serves, with its file names, parameters and tensors: `backend: "fil"`.

`model_type` says what the file is; the rest is done by the adapters of XGBoost and LightGBM, and answered as FP32.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from trilith.core.tensor import Array
from trilith.errors import InvalidConfig
from trilith.runtime.backends.boosters import ReadBooster, booster_table
from trilith.runtime.backends.lightgbm import read_lightgbm
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.scores import read_score_options
from trilith.runtime.backends.tabular import Function, Table, TabularBackend
from trilith.runtime.backends.xgboost import read_xgboost

_TYPES: Final[dict[str, tuple[str, ReadBooster]]] = {
    "xgboost": ("xgboost.model", read_xgboost),
    "xgboost_json": ("xgboost.json", read_xgboost),
    "xgboost_ubj": ("xgboost.ubj", read_xgboost),
    "lightgbm": ("model.txt", read_lightgbm),
}


class FilBackend(TabularBackend):
    """One model of trees."""

    def __init__(self, file: ModelFile) -> None:
        kind = file.spec.parameters.get("model_type", "")
        if kind in _TYPES and file.path is not None and not file.spec.filename:
            file = replace(file, path=file.path.with_name(_TYPES[kind][0]))
        super().__init__(file, "its library", _open)


def _open(file: ModelFile, path: Path) -> Table:
    options = Options(file)
    kind = _model_type(file, options, path)
    wanted = read_score_options(file, options)
    options.finish()
    table = booster_table(file, path, _TYPES[kind][1], wanted)
    return replace(table, functions={name: _single(function) for name, function in table.functions.items()})


def check_fil(file: ModelFile) -> None:
    """See `BackendKind.check`."""
    options = Options(file)
    _model_type(file, options, file.path or Path())
    read_score_options(file, options)


def _model_type(file: ModelFile, options: Options, path: Path) -> str:
    by_name = {name: kind for kind, (name, _) in _TYPES.items()}
    kind = options.text("model_type", by_name.get(path.name, "xgboost"))
    if kind not in _TYPES:
        hint = "; an estimator of scikit-learn is served by the backend sklearn" if "treelite" in kind else ""
        raise InvalidConfig(
            f"model '{file.model}': parameters.model_type: must be one of {', '.join(_TYPES)}; got {kind!r}{hint}"
        )
    return kind


def _single(function: Function) -> Function:
    def run(rows: Array) -> Array:
        found: Array = np.asarray(function(rows), np.float32)
        return found

    return run
