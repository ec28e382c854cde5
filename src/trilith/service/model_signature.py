"""What a model takes and gives. Apart from the ports, since it loads numpy, which a service without models does not."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.core.tensor import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSignature:
    """What a model takes and gives, in the model's own order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
