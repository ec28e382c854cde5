"""What a model says of itself, as every floor sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trilith.core.tensor import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSignature:
    """What a loaded model takes and gives.

    Attributes:
        inputs: in the model's own order, with full shapes, -1 for any size.
        outputs: the same.
        metadata: free text that the model file carries.
        max_batch_size: most rows of one request; 0 when there is no batch dimension, or the backend does not know.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    max_batch_size: int = 0
