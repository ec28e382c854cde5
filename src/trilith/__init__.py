"""Trilith: one Python system for serving models, in three floors that each work alone.

The front door: names are loaded when they are first used, so that `import trilith` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilith.core.context import Context as Context
    from trilith.core.identity import AccessRequest as AccessRequest
    from trilith.core.identity import Identity as Identity
    from trilith.runtime import Runtime as Runtime
    from trilith.service.client import AsyncClient as AsyncClient
    from trilith.service.client import Client as Client
    from trilith.service.client import client as client
    from trilith.service.command.options import Command as Command
    from trilith.service.constraints import ContentType as ContentType
    from trilith.service.constraints import DType as DType
    from trilith.service.constraints import Frame as Frame
    from trilith.service.constraints import Shape as Shape
    from trilith.service.declare import api as api
    from trilith.service.declare import service as service
    from trilith.service.depends import depends as depends
    from trilith.service.depends import model as model
    from trilith.service.deploy import on_deploy as on_deploy
    from trilith.service.mounts.current import current_service as current_service
    from trilith.service.mounts.declare import mount as mount
    from trilith.service.options import Batch as Batch
    from trilith.service.tracing import context as context
    from trilith.telemetry.data_log import log as log
    from trilith.telemetry.instruments import Counter as Counter
    from trilith.telemetry.instruments import Gauge as Gauge
    from trilith.telemetry.instruments import Histogram as Histogram
    from trilith.telemetry.instruments import counter as counter
    from trilith.telemetry.instruments import gauge as gauge
    from trilith.telemetry.instruments import histogram as histogram

__version__ = "0.1.0"

_HOMES: Final = {
    "AsyncClient": "trilith.service.client",
    "Client": "trilith.service.client",
    "client": "trilith.service.client",
    "Batch": "trilith.service.options",
    "Command": "trilith.service.command.options",
    "ContentType": "trilith.service.constraints",
    "DType": "trilith.service.constraints",
    "Frame": "trilith.service.constraints",
    "Shape": "trilith.service.constraints",
    "Context": "trilith.core.context",
    "AccessRequest": "trilith.core.identity",
    "Identity": "trilith.core.identity",
    "Runtime": "trilith.runtime",
    "api": "trilith.service.declare",
    "context": "trilith.service.tracing",
    "depends": "trilith.service.depends",
    "on_deploy": "trilith.service.deploy",
    "model": "trilith.service.depends",
    "mount": "trilith.service.mounts.declare",
    "current_service": "trilith.service.mounts.current",
    "log": "trilith.telemetry.data_log",
    "Counter": "trilith.telemetry.instruments",
    "Gauge": "trilith.telemetry.instruments",
    "Histogram": "trilith.telemetry.instruments",
    "counter": "trilith.telemetry.instruments",
    "gauge": "trilith.telemetry.instruments",
    "histogram": "trilith.telemetry.instruments",
}

__all__ = [
    "AsyncClient",
    "Client",
    "client",
    "Batch",
    "Command",
    "ContentType",
    "Context",
    "AccessRequest",
    "Identity",
    "Counter",
    "Gauge",
    "Histogram",
    "DType",
    "Frame",
    "Runtime",
    "Shape",
    "api",
    "context",
    "counter",
    "current_service",
    "depends",
    "on_deploy",
    "gauge",
    "histogram",
    "log",
    "model",
    "mount",
    "service",
]


def __getattr__(name: str) -> Any:
    if name == "service":  # the package of that name, which is the decorator too
        return importlib.import_module("trilith.service")
    home = _HOMES.get(name)
    if name in ("serve", "run"):
        raise AttributeError(
            f"module 'trilith' has no attribute {name!r}: a service is started by a command, "
            "`trilith serve module:Name` or `trilith serve path/to/app.py:Name` (`python -m trilith serve` is the same)"
        )
    if home is None:
        raise AttributeError(f"module 'trilith' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
