"""`pb_utils.InferenceResponse`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from trilith.core.foreign import foreign_text
from trilith.core.request import Parameter
from trilith.runtime.backends.python.pb_utils.errors import TritonError, TritonModelException
from trilith.runtime.backends.python.pb_utils.tensor import Tensor


class InferenceResponse:
    """The answer to one request.

    Args:
        output_tensors: the outputs.
        error: why there are none: a `TritonError`.
        parameters: of the answer.

    Raises:
        TritonModelException: not of that form.
    """

    __slots__ = ("_error", "_output_tensors", "_parameters")

    def __init__(
        self,
        output_tensors: list[Tensor] | None = None,
        error: TritonError | TritonModelException | None = None,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        found = [] if output_tensors is None else list(output_tensors)
        for tensor in found:
            if not isinstance(tensor, Tensor):
                raise TritonModelException(
                    f"InferenceResponse: output_tensors must be a list of Tensor, it holds a {type(tensor).__name__}"
                )
        if isinstance(error, TritonModelException):
            error = TritonError(str(error))
        if error is not None and not isinstance(error, TritonError):
            raise TritonModelException(f"InferenceResponse: error must be a TritonError, got {type(error).__name__}")
        self._output_tensors = found
        self._error = error
        self._parameters = _plain_parameters(parameters)

    def output_tensors(self) -> list[Tensor]:
        """The outputs."""
        return self._output_tensors

    def has_error(self) -> bool:
        """Whether the request failed."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """Why it failed."""
        return self._error

    def parameters(self) -> str:
        """The parameters as JSON: an object."""
        return json.dumps(self._parameters)

    @property
    def parameter_values(self) -> dict[str, Parameter]:
        """For the runtime: the parameters as values."""
        return self._parameters


def _plain_parameters(parameters: Mapping[str, Parameter] | None) -> dict[str, Parameter]:
    """The same as values of exactly these types: what numpy and others derive from them does not travel."""
    plain: dict[str, Parameter] = {}
    for key, value in dict[Any, Any](parameters or {}).items():
        if not isinstance(key, str):
            raise TritonModelException(
                f"InferenceResponse: the name of a parameter must be text, got {type(key).__name__}"
            )
        name = foreign_text(key)
        if isinstance(value, str):
            plain[name] = foreign_text(value)
        elif isinstance(value, bool | np.bool_):
            plain[name] = bool(value)
        elif isinstance(value, int | np.integer):
            if not -(1 << 63) <= int(value) < 1 << 64:
                raise TritonModelException(f"InferenceResponse: parameter '{name:.200}' does not fit 64 bits")
            plain[name] = int(value)
        elif isinstance(value, float | np.floating):
            plain[name] = float(value)
        else:
            raise TritonModelException(
                f"InferenceResponse: parameter '{name:.200}' must be a bool, an int, a float or text, got "
                f"{type(value).__name__}"
            )
    return plain
