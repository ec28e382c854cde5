"""Models of XGBoost: `model.json` or `model.ubj`. The only file that imports it.

Rule 1: a booster of trees may be asked by several threads at once, so instances share one. A linear one may not, and
    its callers wait for each other.
Rule 2: the number of threads belongs to the booster: `session.intra_op_threads`.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, Final

from trilith.core.tensor import Array
from trilith.errors import InvalidConfig
from trilith.runtime.backends.boosters import Booster, BoosterBackend
from trilith.runtime.backends.files import missing_library
from trilith.runtime.backends.port import ModelFile

_BINARY: Final = ("binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic")


class XgboostBackend(BoosterBackend):
    """One booster of XGBoost."""

    def __init__(self, file: ModelFile) -> None:
        super().__init__(file, "XGBoost", read_xgboost)


def read_xgboost(file: ModelFile, path: Path) -> Booster:
    """Reads a booster.

    Raises:
        UnknownReference: XGBoost is not installed.
        InvalidConfig: it is too old.
    """
    xgboost = _library()
    booster = xgboost.Booster()
    booster.load_model(str(path))
    booster.set_param({"nthread": file.spec.session.intra_op_threads})
    learner = json.loads(booster.save_config())["learner"]
    if learner["gradient_booster"]["name"] != "gblinear":

        def scores(rows: Array) -> Array:
            found: Array = booster.inplace_predict(rows)
            return found
    else:
        lock = threading.Lock()

        def scores(rows: Array) -> Array:
            with lock:
                found: Array = booster.predict(xgboost.DMatrix(rows))
            return found

    return Booster(scores=scores, classes=_classes(learner), width=booster.num_features())


def _classes(learner: dict[str, Any]) -> int:
    if learner["objective"]["name"] in _BINARY:
        return 2
    return int(learner["learner_model_param"]["num_class"])


def _library() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise missing_library("XGBoost", "xgboost", error) from error
    if not hasattr(xgboost.Booster, "inplace_predict"):
        raise InvalidConfig(f"XGBoost {xgboost.__version__} is too old: pip install -U 'trilith[xgboost]'")
    return xgboost
