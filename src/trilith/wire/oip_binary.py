"""The binary tensor data extension of the Open Inference Protocol over HTTP.

A message is a JSON header followed by blobs; the HTTP header `Inference-Header-Content-Length` holds the length of the
JSON. Each tensor in the JSON that has the parameter `binary_data_size` owns the next so many bytes, in order.

Rule: every size comes from a client and may lie; nothing is read outside the body, and nothing is left over.
"""

from __future__ import annotations

from typing import Final

from trilith.errors import InvalidInput
from trilith.wire.oip_status import JsonTypeError
from trilith.wire.oip_tensor import Signature

HEADER_LENGTH: Final = b"inference-header-content-length"
"""The HTTP header, in lower case."""


class Blobs:
    """Hands out the blobs of one body in order."""

    __slots__ = ("_offset", "_signature", "_view")

    def __init__(self, signature: Signature, view: memoryview) -> None:
        self._signature = signature
        self._view = view
        self._offset = 0

    def take(self, name: str, size: object) -> memoryview:
        """The next `size` bytes, for input `name`.

        Raises:
            InvalidInput: the size is no integer >= 0, or the body has no so many bytes left.
        """
        if type(size) is not int or size < 0:
            raise JsonTypeError(
                "binary_data_size", "unsigned-integer", f" (input '{name}': must be >= 0, got {size!r:.40})"
            )
        remaining = len(self._view) - self._offset
        if size > remaining:
            raise InvalidInput(
                f"unexpected size for input '{name}', expecting {size - remaining} additional bytes for model "
                f"'{self._signature.model}'"
            )
        start = self._offset
        self._offset += size
        return self._view[start : self._offset]

    def finish(self) -> None:
        """Checks that every byte found its tensor.

        Raises:
            InvalidInput: bytes are left over.
        """
        remaining = len(self._view) - self._offset
        if remaining:
            raise InvalidInput(
                f"unexpected additional input data for model '{self._signature.model}': {remaining} bytes follow the "
                "last tensor"
            )


def header_length(value: bytes, body_bytes: int) -> int:
    """The length of the JSON header, from the value of `Inference-Header-Content-Length`.

    Raises:
        InvalidInput: not a plain number, or longer than the body.
    """
    if not value.isdigit() or len(value) > 18:
        raise InvalidInput(
            f"Inference-Header-Content-Length must be an integer >= 0, got {value.decode('latin-1')!r:.40}"
        )
    length = int(value)
    if length > body_bytes:
        raise InvalidInput(f"Inference-Header-Content-Length is {length}, but the body has only {body_bytes} bytes")
    return length
