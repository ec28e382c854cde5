"""What executes models. Each adapter is one file, and imports its library only when a model needs it."""

from __future__ import annotations

from trilith.core.model import ModelSignature
from trilith.runtime.backends.builtin import all_backends, builtin_backends
from trilith.runtime.backends.port import (
    Answered,
    Backend,
    BackendKind,
    Batch,
    LifeReport,
    ModelFile,
    Outcome,
    RequestBackend,
    RequestBatch,
)

__all__ = [
    "Answered",
    "Backend",
    "BackendKind",
    "Batch",
    "LifeReport",
    "ModelFile",
    "ModelSignature",
    "Outcome",
    "RequestBackend",
    "RequestBatch",
    "all_backends",
    "builtin_backends",
]
