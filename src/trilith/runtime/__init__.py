"""Floor 1: run models as fast as the hardware allows. See `trilith.runtime.runtime` for what it is and how it stops.

The front loads each name when it is first asked for: a worker that only needs the batcher does not load numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilith.runtime.backends import Backend, BackendKind, Batch, ModelFile, ModelSignature
    from trilith.runtime.handle import ModelHandle
    from trilith.runtime.references import default_roots, find_model
    from trilith.runtime.runtime import Runtime, RuntimeConfig
    from trilith.runtime.schedule import BatchingConfig, DynamicBatcher, QueueStatistics, Waiting
    from trilith.runtime.spec import ModelSpec, ModelState
    from trilith.runtime.statistics import BatchStatistics, Duration, ModelStatistics
    from trilith.runtime.ticket import OnDone, Ticket

_HOME: Final = {
    "Backend": "backends",
    "BackendKind": "backends",
    "Batch": "backends",
    "BatchStatistics": "statistics",
    "BatchingConfig": "schedule",
    "Duration": "statistics",
    "DynamicBatcher": "schedule",
    "ModelFile": "backends",
    "ModelHandle": "handle",
    "ModelSignature": "backends",
    "ModelSpec": "spec",
    "ModelState": "spec",
    "ModelStatistics": "statistics",
    "OnDone": "ticket",
    "QueueStatistics": "schedule",
    "Runtime": "runtime",
    "RuntimeConfig": "runtime",
    "Ticket": "ticket",
    "Waiting": "schedule",
    "default_roots": "references",
    "find_model": "references",
}

__all__ = [
    "Backend",
    "BackendKind",
    "Batch",
    "BatchStatistics",
    "BatchingConfig",
    "Duration",
    "DynamicBatcher",
    "ModelFile",
    "ModelHandle",
    "ModelSignature",
    "ModelSpec",
    "ModelState",
    "ModelStatistics",
    "OnDone",
    "QueueStatistics",
    "Runtime",
    "RuntimeConfig",
    "Ticket",
    "Waiting",
    "default_roots",
    "find_model",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
