"""Extensions that this server does not offer, answered as Triton answers for what is switched off.

The extensions are not listed in the server's metadata. Statuses of shared memory are the exception: there is none.
"""

from __future__ import annotations

from typing import Any, Final

from trilith.errors import NotFound, Unsupported
from trilith.runtime.protocol.routes import Route
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_status import SharedMemoryDisabled

_WORDS: Final = {
    "trace": "the server does not support tracing",
    "logging": "the server does not support dynamic logging",
}
_WORDS_OF_METHODS: Final = {
    "TraceSetting": "the server does not support trace",
    "LogSettings": "the server does not support dynamic logging",
}
_SHARED_MEMORY: Final = (
    "SystemSharedMemoryRegister",
    "SystemSharedMemoryUnregister",
    "CudaSharedMemoryRegister",
    "CudaSharedMemoryUnregister",
)
_STATUSES: Final = ("SystemSharedMemoryStatus", "CudaSharedMemoryStatus")


def answer_http(route: Route) -> bytes | None:
    """The answer of an endpoint that is switched off, or None for one that is not.

    Raises:
        Unsupported: it does something that is not offered.
        NotFound: it asks after one region of shared memory.
    """
    words = _WORDS.get(route.endpoint)
    if words is not None:
        raise Unsupported(words)
    if route.endpoint == "shared_memory":
        raise SharedMemoryDisabled
    if route.endpoint != "shared_memory_status":
        return None
    if route.region:
        raise _unknown_region(route.region)
    return b"[]"


def answer_grpc(method: str, request: Any) -> Any:
    """The same for a method of gRPC, with its message.

    Raises:
        Unsupported, NotFound: as above.
    """
    words = _WORDS_OF_METHODS.get(method)
    if words is not None:
        raise Unsupported(words)
    if method in _SHARED_MEMORY:
        raise SharedMemoryDisabled
    if request.name:
        raise _unknown_region(request.name)
    return getattr(service_messages(), f"{method}Response")()


def methods() -> tuple[str, ...]:
    """The methods of gRPC that `answer_grpc` answers."""
    return (*_WORDS_OF_METHODS, *_SHARED_MEMORY, *_STATUSES)


def _unknown_region(name: str) -> NotFound:
    return NotFound(f"Unable to find shared memory region: '{name:.100}'")
