"""What a request asks for, by its path, in the terms of scopes. Pure.

open      probes of health: nobody needs a key
known     what is said of the server to anybody who has a key, whatever it opens: its API and its documentation
scoped    everything else
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import msgspec


class Need(enum.Enum):
    """What a request needs to pass."""

    NOTHING = enum.auto()
    KEY = enum.auto()
    SCOPE = enum.auto()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for.

    Attributes:
        path: over HTTP, or of the method of gRPC.
        need: what it needs.
        method: of a service, `Ocr.read`; "" for none.
        model: by name; "" for all of them, None for none.
        model_later: it is one of a model that the message names.
    """

    path: str
    need: Need = Need.SCOPE
    method: str = ""
    model: str | None = None
    model_later: bool = False


_OPEN: Final = frozenset(("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"))
_KNOWN: Final = frozenset(("/docs", "/openapi.json", "/v2", "/v2/"))
_TIMELINES: Final = "/timelines/"
_OIP: Final = "/inference.GRPCInferenceService/"
_GRPC_OPEN: Final = (f"{_OIP}ServerLive", f"{_OIP}ServerReady", "/grpc.health.v1.Health/")
_GRPC_KNOWN: Final = (f"{_OIP}ServerMetadata", "/grpc.reflection.")
_GRPC_OF_MODELS: Final = frozenset(
    f"{_OIP}{method}"
    for method in ("ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics", "ModelInfer", "ModelStreamInfer")
)


def asked_of_http(path: str, method_at: Callable[[str], str], model_at: Callable[[str], str | None]) -> Asked:
    """What an HTTP request asks for.

    Args:
        path: raw, without its query.
        method_at: the method of a service at a path, `Ocr.read`, or "".
        model_at: the model that a path asks or asks about, "" for all, None for none.
    """
    method = method_at(path)
    if method:
        return Asked(path=path, method=method)
    if path in _OPEN:
        return Asked(path=path, need=Need.NOTHING)
    if path in _KNOWN or path.startswith(_TIMELINES):
        return Asked(path=path, need=Need.KEY)
    return Asked(path=path, model=model_at(path))


def asked_of_grpc(path: str, method_at: Callable[[str], str]) -> Asked:
    """What a call over gRPC asks for. `method_at`: as for HTTP."""
    method = method_at(path)
    if method:
        return Asked(path=path, method=method)
    if path.startswith(_GRPC_OPEN):
        return Asked(path=path, need=Need.NOTHING)
    if path.startswith(_GRPC_KNOWN):
        return Asked(path=path, need=Need.KEY)
    return Asked(path=path, model_later=path in _GRPC_OF_MODELS)
