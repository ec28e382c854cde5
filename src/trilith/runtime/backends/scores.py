"""What models of trees say of a row, in the words of Triton's FIL backend: a score, a probability a class, or a class.

Parameters, each off unless said:

    output_class    the number of the class instead of its score
    predict_proba   with output_class: the score of each class after all
    threshold       of a model of two classes: the score above which it is class 1; 0.5
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trilith.core.tensor import Array
from trilith.errors import InvalidConfig
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.tabular import Function


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """What is wanted of a row.

    Attributes:
        as_class: the class's number.
        threshold: above it, a score of a model of two classes means class 1.
        columns: width that the configuration declares for the output; 0 for none.
    """

    as_class: bool
    threshold: float
    columns: int


def read_score_options(file: ModelFile, options: Options) -> ScoreOptions:
    """Reads the three parameters.

    Raises:
        InvalidConfig: one has no such value.
    """
    as_class, each = options.switch("output_class"), options.switch("predict_proba")
    threshold = options.number("threshold", 0.5, most=1.0)
    dims = file.spec.outputs[0].model_dims if len(file.spec.outputs) == 1 else None
    return ScoreOptions(as_class=as_class and not each, threshold=threshold, columns=dims[-1] if dims else 0)


def scored(file: ModelFile, raw: Function, classes: int, wanted: ScoreOptions) -> Function:
    """What gives what is wanted.

    Args:
        file: the model.
        raw: scores [n], or one a class [n, classes].
        classes: how many there are; 0 for a model that is no classifier.
        wanted: see there.

    Raises:
        InvalidConfig: the class is wanted of a model that is no classifier.
    """
    if wanted.as_class and classes == 0:
        raise InvalidConfig(
            f"model '{file.model}': parameters.output_class: the model is no classifier, so it has no classes to tell"
        )
    if wanted.as_class:
        return lambda rows: _classes(raw(rows), wanted.threshold if classes == 2 else None)
    if classes == 2 and wanted.columns == 2:
        return lambda rows: _both(raw(rows))
    return raw


def _classes(scores: Array, threshold: float | None) -> Array:
    if scores.ndim > 1 and scores.shape[1] > 1:
        best: Array = scores.argmax(axis=1)
        return best.astype(np.int64)
    return (scores > threshold if threshold is not None else scores).astype(np.int64)


def _both(scores: Array) -> Array:
    ones = scores.reshape(-1)
    return np.stack([1 - ones, ones], axis=1)
