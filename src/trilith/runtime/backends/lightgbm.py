"""Models of LightGBM: `model.txt`. The only file that imports it.

Rule 1: the text is looked through before LightGBM reads it, because a tree that is cut short makes it end the process.
Rule 2: a booster may be asked by several threads at once, so instances share one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from trilith.core.tensor import Array
from trilith.errors import SetupError
from trilith.runtime.backends.boosters import Booster, BoosterBackend
from trilith.runtime.backends.files import missing_library
from trilith.runtime.backends.lightgbm_text import find_damage, read_header
from trilith.runtime.backends.port import ModelFile

_BINARY: Final = ("binary", "cross_entropy")
_MULTICLASS: Final = ("multiclass", "multiclassova")


class LightgbmBackend(BoosterBackend):
    """One booster of LightGBM."""

    def __init__(self, file: ModelFile) -> None:
        super().__init__(file, "LightGBM", read_lightgbm)


def read_lightgbm(file: ModelFile, path: Path) -> Booster:
    """Reads a booster.

    Raises:
        UnknownReference: LightGBM is not installed.
        SetupError: the file is no whole model.
    """
    lightgbm = _library()
    text = path.read_text(encoding="utf-8")
    wrong = find_damage(text)
    if wrong:
        raise SetupError(f"{path}: this is no whole LightGBM model: {wrong}; write it anew with `save_model`")
    booster = lightgbm.Booster(model_str=text)
    threads = file.spec.session.intra_op_threads

    def scores(rows: Array) -> Array:
        found: Array = booster.predict(rows, num_threads=threads)
        return found

    return Booster(scores=scores, classes=_classes(text), width=booster.num_feature())


def _classes(text: str) -> int:
    keys = read_header(text)
    objective = keys.get("objective", "").split(" ")[0]
    if objective in _BINARY:
        return 2
    return int(keys.get("num_class", "1")) if objective in _MULTICLASS else 0


def _library() -> Any:
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError: it needs libgomp
        raise missing_library("LightGBM", "lightgbm", ImportError(str(error))) from error
    return lightgbm
