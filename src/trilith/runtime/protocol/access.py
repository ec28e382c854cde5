"""Which requests may pass, and which of their headers a model gets to see.

Rule: a restricted endpoint is refused before its body is read or its model looked up.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from trilith.errors import Forbidden, InvalidInput
from trilith.wire.oip_options import Restriction, header_pattern
from trilith.wire.oip_parameters import RESERVED, RESERVED_PREFIX, InferCall

GRPC_PREFIX: Final = "triton-grpc-protocol-"
"""Metadata that open restricted methods of gRPC begin so."""

_GROUP_OF: Final[dict[str, str]] = {
    "live": "health",
    "ready": "health",
    "model_ready": "health",
    "server_metadata": "metadata",
    "model_metadata": "metadata",
    "infer": "inference",
    "generate": "inference",
    "generate_stream": "inference",
    "model_config": "model-config",
    "statistics": "statistics",
    "model_statistics": "statistics",
    "trace": "trace",
    "logging": "logging",
    "shared_memory": "shared-memory",
    "shared_memory_status": "shared-memory",
    "ServerLive": "health",
    "ServerReady": "health",
    "ModelReady": "health",
    "ServerMetadata": "metadata",
    "ModelMetadata": "metadata",
    "ModelInfer": "inference",
    "ModelStreamInfer": "inference",
    "ModelConfig": "model-config",
    "ModelStatistics": "statistics",
    "TraceSetting": "trace",
    "LogSettings": "logging",
}

Header = Callable[[bytes], bytes | None]
"""The first value of a header, by its name in lower case."""


class Guard:
    """Knows the restricted endpoints of one protocol.

    Args:
        restrictions: which groups need which header.
        prefix: what the header's name begins with on the wire.
        noun: what Triton calls an endpoint: `API` or `protocol`.
    """

    def __init__(self, restrictions: Iterable[Restriction], *, prefix: str = "", noun: str = "API") -> None:
        self._prefix = prefix
        self._noun = noun
        self._of_group = {group: restriction for restriction in restrictions for group in restriction.groups}

    def check(self, endpoint: str, header: Header) -> None:
        """Lets a request pass or not.

        Args:
            endpoint: a route's name, or a method of gRPC.
            header: looks up the request's headers.

        Raises:
            Forbidden: the endpoint is restricted, and the header is missing or wrong.
        """
        if not self._of_group:
            return
        restriction = self._of_group.get(group_of(endpoint))
        if restriction is None:
            return
        name = self._prefix + restriction.header
        given = header(name.encode("latin-1", "replace"))
        if given is None or not hmac.compare_digest(given, restriction.value.encode()):
            raise Forbidden(f"This {self._noun} is restricted, expecting header '{name}'")


def check_model(allows: Callable[[str], bool], name: str) -> None:
    """Lets a request pass that asks a model by its message, or not.

    Raises:
        Forbidden: the caller may not ask that one ("": all of them).
    """
    if not allows(name):
        raise Forbidden(f"the key does not open {f'the model {name[:100]!r}' if name else 'all models'}")


def group_of(endpoint: str) -> str:
    """The group that an endpoint or a method belongs to; "" for none."""
    if endpoint.startswith(("repository", "Repository")):
        return "model-repository"
    if "SharedMemory" in endpoint:
        return "shared-memory"
    return _GROUP_OF.get(endpoint, "")


class Forwarding:
    """Makes request headers parameters of the request.

    Args:
        pattern: a regular expression that is searched in the header's name; see `header_pattern`.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = header_pattern(pattern)

    def apply(self, headers: Sequence[tuple[bytes, bytes]], call: InferCall) -> None:
        """Adds what matches; a header stands above a parameter of its name, which anyone could have written.

        Raises:
            InvalidInput: a header has a name that the protocol keeps for itself.
        """
        search = self._pattern.search
        for raw_name, value in headers:
            name = raw_name.decode("latin-1")
            if search(name) is None:
                continue
            if name in RESERVED or name.startswith(RESERVED_PREFIX):
                raise InvalidInput(
                    f"the header '{name:.60}' would be forwarded as a parameter whose name is reserved for Triton "
                    f"usage: {', '.join(RESERVED)} and what begins with '{RESERVED_PREFIX}'"
                )
            call.request.parameters[name] = value.decode("utf-8", "replace")
