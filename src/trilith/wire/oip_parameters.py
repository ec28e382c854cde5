"""The parameters of an inference request: those that the protocol defines, and those that go to the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trilith.core.request import InferRequest, Parameter
from trilith.errors import InvalidInput
from trilith.wire.oip_status import JsonTypeError, SharedMemoryDisabled

RESERVED_PREFIX: Final = "triton_"
RESERVED: Final = (
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "headers",
    "binary_data_output",
)
"""Names that are the protocol's own."""
_ALLOWED_RESERVED: Final = "triton_enable_empty_final_response"
_SHARED_MEMORY: Final = "shared_memory_region"
_MAX_UNSIGNED: Final = (1 << 64) - 1
"""The protocol's numbers are of 64 bits; JSON's have no end."""


@dataclass(slots=True, kw_only=True)
class InferCall:
    """A decoded inference message: the request, and how its caller wants the answer.

    Attributes:
        request: what the runtime runs.
        binary_outputs: whether outputs that `binary` does not name go as binary data (HTTP only).
        binary: by output name, whether it goes as binary data (HTTP only).
        classes: by output name, how many classes are wanted instead of the output.
    """

    request: InferRequest
    binary_outputs: bool = False
    binary: dict[str, bool] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)


def apply_parameters(call: InferCall, parameters: Mapping[str, Parameter]) -> None:
    """Sorts a request's parameters into `call`: `priority`, `timeout` (microseconds), `binary_data_output`, the rest.

    Raises:
        InvalidInput: a protocol parameter has a wrong type or a reserved name is used.
    """
    for name, value in parameters.items():
        if name == "timeout":
            call.request.timeout_us = _unsigned(name, value)
        elif name == "priority":
            call.request.priority = _unsigned(name, value)
        elif name == "binary_data_output":
            call.binary_outputs = _boolean(name, value)
        elif name.startswith(RESERVED_PREFIX) and name != _ALLOWED_RESERVED:
            raise InvalidInput(
                f"parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
                f"specified; got {name!r:.60}"
            )
        else:
            if name.startswith("sequence_"):
                _check_sequence(name, value)
            call.request.parameters[name] = value


def classes_wanted(parameters: Mapping[str, object], name: str) -> int:
    """How many classes are wanted of an output; 0 for the output itself.

    Raises:
        InvalidInput: the parameter `classification` is no number >= 0.
    """
    count = parameters.get("classification", 0)
    if type(count) is not int or not 0 <= count <= _MAX_UNSIGNED:
        raise JsonTypeError("classification", "unsigned-integer", f" (output '{name}')")
    return count


def refuse_shared_memory(parameters: Mapping[str, object], kind: str, name: str) -> None:
    """Refuses a tensor that lives in a client's shared memory.

    Raises:
        SharedMemoryDisabled: it does.
    """
    if _SHARED_MEMORY in parameters:
        raise SharedMemoryDisabled(f" ({kind} '{name:.100}')")


def _unsigned(name: str, value: Parameter) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_UNSIGNED:
        raise InvalidInput(
            f"invalid value type for '{name}' parameter, expected int64_param: an integer from 0 to {_MAX_UNSIGNED}, "
            f"got {value!r:.40}"
        )
    return value


def _boolean(name: str, value: Parameter) -> bool:
    if type(value) is not bool:
        raise InvalidInput(
            f"invalid value type for '{name}' parameter, expected bool_param: true or false, got {value!r:.40}"
        )
    return value


def _check_sequence(name: str, value: Parameter) -> None:
    """What says which sequence a request belongs to is checked, though no model here keeps a state between requests."""
    if name in ("sequence_start", "sequence_end"):
        _boolean(name, value)
    elif name == "sequence_id" and type(value) is not str and (type(value) is not int or value < 0):
        raise InvalidInput(
            f"invalid value type for 'sequence_id' parameter, expected int64_param or string_param. Got {value!r:.40}"
        )
