"""Which `parameters` each backend knows. Any other is for clients and models to read, as in Triton, and never an error.

Rule: a backend asks for no key that is not listed here (`tests/unit/runtime/test_parameters.py`), so that
`trilith models check` can tell the others without loading anything.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from trilith.runtime.onnx_parameters import IDLE_PARAMETERS, PARAMETERS, SESSION_ENTRIES

_SCORES: Final = ("output_class", "predict_proba", "threshold")
KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "onnxruntime": (*PARAMETERS, *IDLE_PARAMETERS),
    "pytorch": (
        *("ENABLE_WEIGHT_SHARING", "INTRA_OP_THREAD_COUNT", "INTER_OP_THREAD_COUNT", "DISABLE_OPTIMIZED_EXECUTION"),
        *("INFERENCE_MODE", "DISABLE_CUDNN", "ENABLE_CACHE_CLEANING", "FORCE_CPU_ONLY_INPUT_TENSORS"),
    ),
    "openvino": (
        *("CPU_THREADS_NUM", "CPU_THROUGHPUT_STREAMS", "CPU_BIND_THREAD", "CPU_EXTENSION_PATH", "ENFORCE_BF16"),
        *("SKIP_DYNAMIC_BATCHSIZE", "SKIP_OV_DYNAMIC_BATCHSIZE", "TARGET_DEVICE"),
    ),
    "sklearn": ("allow_pickle", "trusted_types"),
    "xgboost": _SCORES,
    "lightgbm": _SCORES,
    "fil": (
        *("model_type", *_SCORES, "algo", "storage_type", "threads_per_tree", "blocks_per_sm", "transfer_threshold"),
        *("use_experimental_optimizations", "xgboost_allow_unknown_field", "chunk_size"),
    ),
    "identity": ("execute_delay_ms", "instance_wise_delay_multiplier", "creation_delay_sec"),
    "python": ("EXECUTION_ENV_PATH", "FORCE_CPU_ONLY_INPUT_TENSORS", "silent_timeout_ms", "abandoned_timeout_ms"),
}
_PASSED_ON: Final[Mapping[str, re.Pattern[str]]] = {
    "onnxruntime": re.compile(re.escape(SESSION_ENTRIES) + ".+"),
    "openvino": re.compile("[A-Z][A-Z0-9_]*"),
}
"""Keys that are the library's own."""
_NEAR: Final = 0.8


def passed_on(backend: str, key: str) -> bool:
    """Whether a key is one of those that the backend's library is given as they are."""
    return backend in _PASSED_ON and _PASSED_ON[backend].fullmatch(key) is not None


def unknown_parameters(backend: str, parameters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The keys that mean nothing to a backend, each with the one that was perhaps meant, or "".

    Args:
        backend: its name; of one that is not listed here, nothing is unknown.
        parameters: as configured.
    """
    known = KNOWN.get(backend)
    if known is None:
        return
    lowered = {key.lower(): key for key in known}
    for key in parameters:
        if key not in known and not passed_on(backend, key):
            near = difflib.get_close_matches(key.lower(), lowered, n=1, cutoff=_NEAR)
            yield key, lowered[near[0]] if near else ""
