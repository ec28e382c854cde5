"""What executes models. Each adapter is one file, and imports its library only when a model needs it."""

from __future__ import annotations

from trilith.core.model import ModelSignature
from trilith.runtime.backends.builtin import builtin_backends
from trilith.runtime.backends.port import Backend, BackendKind, Batch, ModelFile

__all__ = ["Backend", "BackendKind", "Batch", "ModelFile", "ModelSignature", "builtin_backends"]
