"""Estimators of scikit-learn: `model.skops`, `model.joblib` or `model.pkl`. The only file that imports it.

Rule 1: unpickling runs code. A pickle (joblib writes pickles) is only read when `parameters.allow_pickle` says so, and
    only from the model's own folder. A skops file is data: it is read when every type in it is known to skops to be
    harmless, or is named in `parameters.trusted_types`.
Rule 2: an output is named after the method that gives it. `predict`, `predict_proba` and `transform` are offered;
    others when they are declared.
Rule 3: predicting changes nothing, so instances share one estimator. Threads of its own are `session.intra_op_threads`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from trilith.core.tensor import Array, DataType
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.backends.files import missing_library
from trilith.runtime.backends.options import Options, refuse_session
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.tabular import Function, Table, TabularBackend

_OFFERED: Final = ("predict", "predict_proba", "transform")
_ON_DEMAND: Final = ("decision_function", "predict_log_proba", "score_samples")
_PICKLES: Final = (".joblib", ".pkl", ".pickle")


class SklearnBackend(TabularBackend):
    """One estimator, or pipeline of them."""

    def __init__(self, file: ModelFile) -> None:
        super().__init__(file, "scikit-learn", _open)


def _open(file: ModelFile, path: Path) -> Table:
    refuse_session(file, ("intra_op_threads",))
    options = Options(file)
    trusted, allowed = options.names("trusted_types"), options.switch("allow_pickle")
    options.finish()
    if path.suffix in _PICKLES:
        estimator = _unpickle(file, path, allowed=allowed)
    elif path.suffix == ".skops":
        estimator = _read_skops(file, path, trusted)
    else:
        raise SetupError(
            f"{path}: the sklearn backend tells files by their names: expected .skops, {', '.join(_PICKLES)}"
        )
    methods = [name for name in (*_OFFERED, *_ON_DEMAND) if hasattr(estimator, name)]
    if not methods:
        raise SetupError(
            f"{path}: holds an object of type {type(estimator).__name__}, which neither predicts nor transforms"
        )
    declared = {tensor.name for tensor in file.spec.outputs}
    offered = [name for name in methods if name in _OFFERED or name in declared]
    width = getattr(estimator, "n_features_in_", None)
    threads = file.spec.session.intra_op_threads
    _set_jobs(estimator, threads)
    return Table(
        functions={name: _method(estimator, name, flat=width is None) for name in offered or methods},
        width=width,
        datatype=DataType.FP64,
        enter_thread=lambda: _limit_threads(threads),
    )


def _method(estimator: Any, name: str, *, flat: bool) -> Function:
    """A method as a function. What does not say how wide its rows are (a vectoriser of texts) takes single values."""
    method = getattr(estimator, name)

    def run(rows: Array) -> Array:
        found = method(rows[:, 0] if flat and rows.shape[1] == 1 else rows)
        dense: Array = np.asarray(found.toarray() if hasattr(found, "toarray") else found)
        return dense

    return run


def check_sklearn(file: ModelFile) -> None:
    """See `BackendKind.check`."""
    refuse_session(file, ("intra_op_threads",))
    allowed = Options(file).switch("allow_pickle")
    if file.path is not None and file.path.suffix in _PICKLES:
        _see_allowed(file, file.path, allowed=allowed)


def _see_allowed(file: ModelFile, path: Path, *, allowed: bool) -> None:
    if not allowed:
        raise InvalidConfig(
            f"{path}: reading a pickle runs whatever code its writer put into it, so it is not done unasked; save the "
            "model with skops.io.dump to model.skops, or, if you know who wrote this file, say "
            "`parameters: {allow_pickle: true}` in the model's configuration"
        )
    if file.spec.source is not None:
        raise InvalidConfig(
            f"{path}: pickles are only read from the model's own folder, not from `source`; save the model with skops"
        )


def _unpickle(file: ModelFile, path: Path, *, allowed: bool) -> Any:
    _see_allowed(file, path, allowed=allowed)
    try:
        import joblib
        import sklearn  # noqa: F401  what the pickle needs, for a message that says how to install it
    except ImportError as error:
        raise missing_library("scikit-learn", "sklearn", error) from error
    return joblib.load(path)


def _read_skops(file: ModelFile, path: Path, trusted: list[str]) -> Any:
    try:
        from skops.io import get_untrusted_types, load
    except ImportError as error:
        raise missing_library("scikit-learn", "sklearn", error) from error
    unknown = [name for name in get_untrusted_types(file=path) if name not in trusted]
    if unknown:
        raise InvalidConfig(
            f"{path}: holds types that are not known to be harmless: {', '.join(unknown)}; if you trust them, say "
            f'`parameters: {{trusted_types: "{" ".join([*trusted, *unknown])}"}}` in the configuration of model '
            f"'{file.model}'"
        )
    return load(path, trusted=trusted)


def _set_jobs(estimator: Any, threads: int) -> None:
    """Forests and others start threads of their own for each call, unless told otherwise."""
    if hasattr(estimator, "get_params") and hasattr(estimator, "set_params"):
        jobs = [key for key in estimator.get_params() if key.rpartition("__")[2] == "n_jobs"]
        estimator.set_params(**dict.fromkeys(jobs, threads or -1))


def _limit_threads(threads: int) -> None:
    """Bounds the OpenMP threads of the calling thread."""
    if threads:
        import threadpoolctl

        threadpoolctl.threadpool_limits(limits=threads, user_api="openmp")
