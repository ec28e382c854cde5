"""The parameters of an inference request: those that the protocol defines, and those that go to the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from trilith.core.request import InferRequest, Parameter
from trilith.errors import InvalidInput, Unsupported

_RESERVED_PREFIX: Final = "triton_"
_ALLOWED_RESERVED: Final = "triton_enable_empty_final_response"
_SHARED_MEMORY: Final = "shared_memory_region"
_MAX_UNSIGNED: Final = (1 << 64) - 1
"""The protocol's numbers are of 64 bits; JSON's have no end."""


@dataclass(slots=True, kw_only=True)
class InferCall:
    """A decoded inference message: the request, and how its caller wants the answer.

    Attributes:
        request: what the runtime runs.
        timeout_s: the caller's time limit in seconds, or None.
        binary_outputs: whether outputs that `binary` does not name go as binary data (HTTP only).
        binary: by output name, whether it goes as binary data (HTTP only).
    """

    request: InferRequest
    timeout_s: float | None = None
    binary_outputs: bool = False
    binary: dict[str, bool] = field(default_factory=dict)


def apply_parameters(call: InferCall, parameters: Mapping[str, Parameter]) -> None:
    """Sorts a request's parameters into `call`: `priority`, `timeout` (microseconds), `binary_data_output`, the rest.

    Raises:
        InvalidInput: a protocol parameter has a wrong type or a reserved name is used.
    """
    for name, value in parameters.items():
        if name == "timeout":
            timeout_us = _unsigned(name, value)
            call.timeout_s = timeout_us / 1e6 if timeout_us else None
        elif name == "priority":
            call.request.priority = _unsigned(name, value)
        elif name == "binary_data_output":
            call.binary_outputs = _boolean(name, value)
        elif name.startswith(_RESERVED_PREFIX) and name != _ALLOWED_RESERVED:
            raise InvalidInput(
                f"parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
                f"specified; got {name!r:.60}"
            )
        else:
            call.request.parameters[name] = value


def refuse_shared_memory(parameters: Mapping[str, object], kind: str, name: str) -> None:
    """Refuses a tensor that lives in a client's shared memory.

    Raises:
        Unsupported: it does.
    """
    if _SHARED_MEMORY in parameters:
        raise Unsupported(
            f"{kind} '{name}': Client shared memory is disabled on this server; send the tensor's data in the request"
        )


def refuse_classification(parameters: Mapping[str, object], name: str) -> None:
    """Refuses the classification extension, which would otherwise be ignored without a word.

    Raises:
        Unsupported: it is asked for.
    """
    if parameters.get("classification"):
        raise Unsupported(f"output '{name}': the classification extension is not offered; ask for the plain output")


def _unsigned(name: str, value: Parameter) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_UNSIGNED:
        raise InvalidInput(
            f"invalid value for parameter '{name}': expected an integer from 0 to {_MAX_UNSIGNED}, got {value!r:.40}"
        )
    return value


def _boolean(name: str, value: Parameter) -> bool:
    if type(value) is not bool:
        raise InvalidInput(f"invalid value for parameter '{name}': expected true or false, got {value!r:.40}")
    return value
