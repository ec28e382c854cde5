"""Floor 1: run models as fast as the hardware allows. See `trilith.runtime.runtime` for what it is and how it stops.

The front loads each name when it is first asked for: a worker that only needs the batcher does not load numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilith.core.load_options import ControlMode
    from trilith.core.request import InferRequest, InferResponse
    from trilith.core.tensor import DataType, TensorSpec
    from trilith.runtime.backends import Backend, BackendKind, Batch, ModelFile, ModelSignature
    from trilith.runtime.call_pump import CallPump
    from trilith.runtime.checking import CheckedModel, check_models
    from trilith.runtime.fingerprint import stamp_of
    from trilith.runtime.handle import ModelHandle
    from trilith.runtime.life import ModelState
    from trilith.runtime.model_convert import convert_config
    from trilith.runtime.model_settings import check_model_settings
    from trilith.runtime.references import default_roots, find_model
    from trilith.runtime.repository import read_spec
    from trilith.runtime.runtime import Runtime
    from trilith.runtime.runtime_config import RuntimeConfig
    from trilith.runtime.schedule import (
        BatchingConfig,
        CallBatch,
        CallQueue,
        DynamicBatcher,
        Halves,
        LearnedCurve,
        MeasuredSize,
        QueuedCall,
        QueueStatistics,
        Waiting,
    )
    from trilith.runtime.spec import ModelSpec
    from trilith.runtime.statistics import BatchStatistics, Duration, ModelStatistics
    from trilith.runtime.ticket import OnDone, Ticket

_HOME: Final = {
    "Backend": "trilith.runtime.backends",
    "BackendKind": "trilith.runtime.backends",
    "Batch": "trilith.runtime.backends",
    "BatchStatistics": "trilith.runtime.statistics",
    "BatchingConfig": "trilith.runtime.schedule",
    "CallBatch": "trilith.runtime.schedule",
    "CallPump": "trilith.runtime.call_pump",
    "CallQueue": "trilith.runtime.schedule",
    "CheckedModel": "trilith.runtime.checking",
    "ControlMode": "trilith.core.load_options",
    "DataType": "trilith.core.tensor",
    "Duration": "trilith.runtime.statistics",
    "DynamicBatcher": "trilith.runtime.schedule",
    "Halves": "trilith.runtime.schedule",
    "InferRequest": "trilith.core.request",
    "InferResponse": "trilith.core.request",
    "LearnedCurve": "trilith.runtime.schedule",
    "MeasuredSize": "trilith.runtime.schedule",
    "ModelFile": "trilith.runtime.backends",
    "ModelHandle": "trilith.runtime.handle",
    "ModelSignature": "trilith.runtime.backends",
    "ModelSpec": "trilith.runtime.spec",
    "ModelState": "trilith.runtime.life",
    "ModelStatistics": "trilith.runtime.statistics",
    "OnDone": "trilith.runtime.ticket",
    "QueueStatistics": "trilith.runtime.schedule",
    "QueuedCall": "trilith.runtime.schedule",
    "Runtime": "trilith.runtime.runtime",
    "RuntimeConfig": "trilith.runtime.runtime",
    "TensorSpec": "trilith.core.tensor",
    "Ticket": "trilith.runtime.ticket",
    "Waiting": "trilith.runtime.schedule",
    "check_model_settings": "trilith.runtime.model_settings",
    "check_models": "trilith.runtime.checking",
    "convert_config": "trilith.runtime.model_convert",
    "default_roots": "trilith.runtime.references",
    "find_model": "trilith.runtime.references",
    "read_spec": "trilith.runtime.repository",
    "stamp_of": "trilith.runtime.fingerprint",
}

__all__ = [
    "Backend",
    "BackendKind",
    "Batch",
    "BatchStatistics",
    "BatchingConfig",
    "CallBatch",
    "CallPump",
    "CallQueue",
    "CheckedModel",
    "ControlMode",
    "DataType",
    "Duration",
    "DynamicBatcher",
    "Halves",
    "InferRequest",
    "InferResponse",
    "LearnedCurve",
    "MeasuredSize",
    "ModelFile",
    "ModelHandle",
    "ModelSignature",
    "ModelSpec",
    "ModelState",
    "ModelStatistics",
    "OnDone",
    "QueueStatistics",
    "QueuedCall",
    "Runtime",
    "RuntimeConfig",
    "TensorSpec",
    "Ticket",
    "Waiting",
    "check_model_settings",
    "check_models",
    "convert_config",
    "default_roots",
    "find_model",
    "read_spec",
    "stamp_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
