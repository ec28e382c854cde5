"""What a model takes and gives. Apart from the ports, since it loads numpy, which a service without models does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trilith.core.tensor import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSignature:
    """What a model takes and gives, in the model's own order, and the free text that its file carries."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
