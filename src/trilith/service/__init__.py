"""Floor 2: a Python class or function with annotations becomes a typed API.

The front of the package. What a user's program takes is in `trilith` itself; here is what a server needs:

    load_target("app:Ocr")      the decorated class or function
    describe(service)           AppDescription: services, methods, routes, schemas, as plain values
    ServiceHost, ServiceCall    runs the methods in a worker process, transport-agnostic
    Resolver, RemoteServiceCaller   how a service reaches its dependencies and models
    openapi_document, docs_html what `/openapi.json` and `/docs` answer
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from trilith.service.access import ACCESS_METHOD, ACCESS_SERVICE, access_service, access_spec, with_access
from trilith.service.call import MESSAGE_RESULT, PLAIN_RESULT, OnDone, Outcome, ServiceCall
from trilith.service.codecs.native import pack, unpack
from trilith.service.declare import api, service
from trilith.service.depends import depends, model
from trilith.service.deploy import deploy_hooks, on_deploy, run_deploy_hook
from trilith.service.describe import (
    AppDescription,
    BatchDescription,
    MethodDescription,
    ModelUse,
    ParameterDescription,
    ServiceDescription,
    ValueDescription,
    describe,
    service_graph,
)
from trilith.service.docs_page import docs_html
from trilith.service.health import IS_ALIVE, IS_READY, has_hook, why_not
from trilith.service.host import ServiceHost
from trilith.service.local import InProcessResolver
from trilith.service.mounts.current import current_service
from trilith.service.mounts.declare import mount
from trilith.service.names import is_own_path
from trilith.service.openapi import openapi_document
from trilith.service.options import Batch
from trilith.service.ports import ModelCaller, Placement, Resolver, ServiceCaller
from trilith.service.proto.compiler import PROTO_SUFFIXES
from trilith.service.proto.compiler import keep_files as keep_proto_files
from trilith.service.proto.compiler import read_file as read_proto_file
from trilith.service.proxy import ModelProxy, ServiceProxy
from trilith.service.remote import ItemStream, Open, RemoteServiceCaller, Send
from trilith.service.settings import apply_settings
from trilith.service.spec import ServiceSpec, spec_of
from trilith.service.streams.call import ItemPort, StreamServiceCall
from trilith.service.target import Target, TargetKind, load_named, load_target, parse_target
from trilith.service.tracing import context, tracing

if TYPE_CHECKING:
    from pathlib import Path

    from trilith.core.model import ModelSignature

__all__ = [
    "IS_ALIVE",
    "IS_READY",
    "deploy_hooks",
    "has_hook",
    "on_deploy",
    "run_deploy_hook",
    "why_not",
    "ACCESS_METHOD",
    "ACCESS_SERVICE",
    "access_service",
    "access_spec",
    "load_named",
    "with_access",
    "MESSAGE_RESULT",
    "PLAIN_RESULT",
    "PROTO_SUFFIXES",
    "AppDescription",
    "Batch",
    "BatchDescription",
    "InProcessResolver",
    "ItemPort",
    "ItemStream",
    "MethodDescription",
    "ModelCaller",
    "ModelSignature",
    "ModelProxy",
    "ModelUse",
    "OnDone",
    "Open",
    "Outcome",
    "ParameterDescription",
    "Placement",
    "RemoteServiceCaller",
    "Resolver",
    "Send",
    "ServiceCall",
    "ServiceCaller",
    "ServiceDescription",
    "ServiceHost",
    "ServiceProxy",
    "ServiceSpec",
    "StreamServiceCall",
    "Target",
    "TargetKind",
    "ValueDescription",
    "api",
    "apply_settings",
    "context",
    "current_service",
    "depends",
    "describe",
    "docs_html",
    "is_own_path",
    "keep_proto_files",
    "load_target",
    "model",
    "mount",
    "openapi_document",
    "pack",
    "parse_target",
    "proto_of",
    "read_proto_file",
    "service",
    "service_graph",
    "spec_of",
    "tracing",
    "unpack",
]


def proto_of(spec: ServiceSpec, path: Path | None = None) -> str:
    """The `.proto` of a service; see `trilith.service.proto.write`."""
    from trilith.service.proto import write

    return write.proto_of(spec, path)


def __getattr__(name: str) -> Any:
    if name == "ModelSignature":  # loads numpy
        from trilith.core.model import ModelSignature

        return ModelSignature
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(types.ModuleType):
    """This package, callable: `trilith.service` is both the package and the decorator of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return service(*arguments, **options)


sys.modules[__name__].__class__ = _Package
