"""One inference request and its answer, as every floor sees them. No bytes, no protocol."""

from __future__ import annotations

from dataclasses import dataclass, field

from trilith.core.tensor import Array

Parameter = bool | int | float | str


@dataclass(slots=True, kw_only=True)
class InferRequest:
    """A request to run one model.

    Attributes:
        model: the model's name.
        inputs: tensors by name. Shapes include the batch dimension when the model batches. BYTES: dtype object.
        version: the version wanted, or "" for the one that the version policy prefers.
        id: the caller's own id, echoed in the answer; "" for none.
        outputs: the outputs wanted by name; empty for all.
        parameters: protocol parameters of the request.
        priority: 0 for the model's default; smaller positive numbers go first (Triton's order).
        timeout_us: how long it may wait in the model's queue, in microseconds; 0 for what the model allows.
    """

    model: str
    inputs: dict[str, Array]
    version: str = ""
    id: str = ""
    outputs: tuple[str, ...] = ()
    parameters: dict[str, Parameter] = field(default_factory=dict)
    priority: int = 0
    timeout_us: int = 0


@dataclass(slots=True, kw_only=True)
class InferResponse:
    """The answer to an `InferRequest`.

    Attributes:
        model: the model's name.
        version: the version that ran.
        outputs: tensors by name, in the order that the model (or the request) names them.
        id: the request's id.
        parameters: protocol parameters of the answer.
    """

    model: str
    version: str
    outputs: dict[str, Array]
    id: str = ""
    parameters: dict[str, Parameter] = field(default_factory=dict)
