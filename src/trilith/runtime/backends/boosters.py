"""Models of boosted trees: what the backends xgboost, lightgbm and fil share.

An adapter reads a file and says how its booster scores rows; this file makes a table of what is wanted of the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trilith.core.tensor import DataType
from trilith.runtime.backends.options import Options, refuse_session
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.scores import ScoreOptions, read_score_options, scored
from trilith.runtime.backends.tabular import OUTPUT, Function, Table, TabularBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class Booster:
    """A booster that was read.

    Attributes:
        scores: of rows: [n], or one a class [n, classes].
        classes: how many there are; 0 for a model that is no classifier.
        width: columns that it takes.
    """

    scores: Function
    classes: int
    width: int


ReadBooster = Callable[[ModelFile, Path], Booster]
"""Reads the file at a path. `session.intra_op_threads` is the number of threads, the only session option."""


class BoosterBackend(TabularBackend):
    """One booster.

    Args:
        file: what to load.
        library: name of the library, for messages.
        read: reads the file.
    """

    def __init__(self, file: ModelFile, library: str, read: ReadBooster) -> None:
        super().__init__(file, library, lambda file, path: _open(file, path, read))


def _open(file: ModelFile, path: Path, read: ReadBooster) -> Table:
    options = Options(file)
    wanted = read_score_options(file, options)
    options.finish()
    return booster_table(file, path, read, wanted)


def booster_table(file: ModelFile, path: Path, read: ReadBooster, wanted: ScoreOptions) -> Table:
    """Reads a booster, and makes a table of it.

    Raises:
        UnknownReference: its library is not installed.
        InvalidConfig: a session option means nothing to it, or the class is wanted of a model that is no classifier.
        SetupError: the file is no whole model.
    """
    refuse_session(file, ("intra_op_threads",))
    booster = read(file, path)
    function = scored(file, booster.scores, booster.classes, wanted)
    return Table(functions={OUTPUT: function}, width=booster.width, datatype=DataType.FP32)
