"""Models of LightGBM: `model.txt`. The only file that imports it.

Rule 1: the text is looked through before LightGBM reads it, because a tree that is cut short makes it end the process.
Rule 2: a booster may be asked by several threads at once, so instances share one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from trilith.core.tensor import Array, DataType
from trilith.errors import SetupError
from trilith.runtime.backends.files import missing_library
from trilith.runtime.backends.options import Options, refuse_session
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.scores import ScoreOptions, read_score_options, scored
from trilith.runtime.backends.tabular import OUTPUT, Table, TabularBackend

_BINARY: Final = ("binary", "cross_entropy")
_MULTICLASS: Final = ("multiclass", "multiclassova")
_BRANCHES: Final = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
_ENDS: Final = "end of trees"
_KEYS: Final = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)


class LightgbmBackend(TabularBackend):
    """One booster."""

    def __init__(self, file: ModelFile) -> None:
        super().__init__(file, "LightGBM", _open)


def _open(file: ModelFile, path: Path) -> Table:
    options = Options(file)
    wanted = read_score_options(file, options)
    options.finish()
    return open_lightgbm(file, path, wanted)


def open_lightgbm(file: ModelFile, path: Path, wanted: ScoreOptions) -> Table:
    """Reads a booster.

    Raises:
        UnknownReference: LightGBM is not installed.
        InvalidConfig: a session option means nothing to it.
        SetupError: the file is no whole model.
    """
    refuse_session(file, ("intra_op_threads",))
    lightgbm = _library()
    text = path.read_text(encoding="utf-8")
    wrong = find_damage(text)
    if wrong:
        raise SetupError(f"{path}: this is no whole LightGBM model: {wrong}; write it anew with `save_model`")
    booster = lightgbm.Booster(model_str=text)
    threads = file.spec.session.intra_op_threads

    def raw(rows: Array) -> Array:
        found: Array = booster.predict(rows, num_threads=threads)
        return found

    function = scored(file, raw, _classes(text), wanted)
    return Table(functions={OUTPUT: function}, width=booster.num_feature(), datatype=DataType.FP32)


def find_damage(text: str) -> str:
    """What is wrong with the text of a model; "" for nothing. Each tree has as many numbers as its leaves need."""
    if not text.startswith("tree\n"):
        return "it does not begin with the line 'tree'"
    body, end, rest = text.partition(f"\n{_ENDS}")
    if not end:
        return f"the line '{_ENDS}' is missing"
    if "\nparameters:" in rest and "\nend of parameters" not in rest:
        return "the line 'end of parameters' is missing"
    header, *trees = re.split(r"^Tree=\d+$", body, flags=re.MULTILINE)
    sizes = dict(_KEYS.findall(header)).get("tree_sizes", "").split()
    if len(sizes) != len(trees):
        return f"it has {len(trees)} trees, and says that there are {len(sizes)}"
    for at, tree in enumerate(trees):
        wrong = _tree_damage(dict(_KEYS.findall(tree)))
        if wrong:
            return f"tree {at}: {wrong}"
    return ""


def _tree_damage(keys: dict[str, str]) -> str:
    leaves = keys.get("num_leaves", "")
    if not leaves.isdigit() or int(leaves) < 1:
        return "num_leaves is missing"
    expected = {"leaf_value": int(leaves)} | {key: int(leaves) - 1 for key in _BRANCHES if int(leaves) > 1}
    for key, count in expected.items():
        values = keys.get(key, "").split()
        if len(values) != count:
            return f"{key} has {len(values)} numbers instead of {count}"
        try:
            numbers = [float(value) for value in values]
        except ValueError:
            return f"{key} is not made of numbers"
        if key.endswith("_child") and not all(-count - 1 <= number < count for number in numbers):
            return f"{key} points outside of the tree"
    return ""


def _classes(text: str) -> int:
    keys = dict(_KEYS.findall(text.partition("Tree=")[0]))
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
