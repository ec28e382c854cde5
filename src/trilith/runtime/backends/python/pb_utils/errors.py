"""Errors of `triton_python_backend_utils`, and which error of Trilith's each code becomes."""

from __future__ import annotations

from typing import Final

from trilith import errors
from trilith.core.foreign import foreign_text, shortened

_UNKNOWN, _INTERNAL, _NOT_FOUND, _INVALID_ARG, _UNAVAILABLE, _UNSUPPORTED, _ALREADY_EXISTS, _CANCELLED = range(8)
WIRE_CODES: Final = {
    _UNKNOWN: errors.UnknownFailure.code,
    _INTERNAL: errors.ModelError.code,
    _NOT_FOUND: errors.NotFound.code,
    _INVALID_ARG: errors.InvalidInput.code,
    _UNAVAILABLE: errors.CapacityError.code,
    _UNSUPPORTED: errors.Unsupported.code,
    _ALREADY_EXISTS: errors.AlreadyExists.code,
    _CANCELLED: errors.Cancelled.code,
}


class TritonModelException(Exception):
    """What every function here raises."""

    def __init__(self, msg: str = "") -> None:
        super().__init__(msg)

    def message(self) -> str:
        """The message."""
        return str(self)


class TritonError:
    """Why a request failed: given to `InferenceResponse`, it answers that request alone.

    Args:
        message: what the client is told, as it is.
        code: one of the codes below.
    """

    UNKNOWN = _UNKNOWN
    INTERNAL = _INTERNAL
    NOT_FOUND = _NOT_FOUND
    INVALID_ARG = _INVALID_ARG
    UNAVAILABLE = _UNAVAILABLE
    UNSUPPORTED = _UNSUPPORTED
    ALREADY_EXISTS = _ALREADY_EXISTS
    CANCELLED = _CANCELLED

    def __init__(self, message: str, code: int = _INTERNAL) -> None:
        given: object = code
        if not isinstance(given, int) or given not in WIRE_CODES:
            told = shortened(foreign_text(given), 200)
            raise TritonModelException(f"TritonError: code must be one of TritonError's constants, got {told}")
        self._message = foreign_text(message)
        self._code = int(code)

    def message(self) -> str:
        """The message."""
        return self._message

    def code(self) -> int:
        """The code."""
        return self._code

    def __str__(self) -> str:
        return self._message
