"""What the gateway serves of an application: its methods by name and by path, and the models that they use."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.grpc_offer import GrpcOffer, read_offer
from trilith.orchestration.engine.mount_table import MountTable
from trilith.service import AppDescription, is_own_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApplication:
    """One revision of an application.

    Attributes:
        revision: which.
        description: as its first worker gave it.
        methods: every method of every service, by service and method name.
        paths: the methods that HTTP clients may call, by path: those of the root service.
        mounts: what answers HTTP by itself: that of the root service.
        models: references of the models that the node hosts.
        grpc: what gRPC clients may call.
    """

    revision: int
    description: AppDescription
    methods: dict[tuple[str, str], MethodRoute]
    paths: dict[str, MethodRoute]
    mounts: MountTable
    models: tuple[str, ...]
    grpc: GrpcOffer


def read_application(raw: msgspec.Raw, revision: int) -> ServedApplication:
    """The application that a description tells of.

    Raises:
        SetupError: what it offers over gRPC cannot be read here.
    """
    description = msgspec.json.decode(raw, type=AppDescription)
    methods: dict[tuple[str, str], MethodRoute] = {}
    paths: dict[str, MethodRoute] = {}
    mounts: list[tuple[str, MethodRoute]] = []
    models: dict[str, None] = {}
    for service in description.services:
        for model in service.models:
            if model.placement == "node":
                models[model.reference] = None
        for method in service.methods:
            batch = method.batch
            route = methods[service.name, method.name] = MethodRoute(
                service=service.name,
                method=method.name,
                timeout_s=method.timeout_s,
                idempotent=method.idempotent,
                batch_rows=batch.max_size if batch is not None else 0,
                batch_wait_s=None if batch is None or batch.max_wait_ms is None else batch.max_wait_ms / 1e3,
                max_waiting=service.max_waiting,
                offers=tuple(method.offers),
                streams_out=method.streams,
                takes=tuple(method.accepts) if method.taken is not None else (),
                arguments=bool(method.parameters),
            )
            if service is description.services[0]:
                paths.update(dict.fromkeys(method.routes, route))
        for mount in service.mounts:
            route = methods[service.name, mount.path] = MethodRoute(
                service=service.name,
                method=mount.path,
                timeout_s=mount.timeout_s,
                idempotent=False,
                batch_rows=0,
                batch_wait_s=0.0,
                max_waiting=service.max_waiting,
                streams_out=True,
            )
            if service is description.services[0]:
                mounts.append((mount.path.rstrip("/"), route))
    if description.root.middleware:
        table = MountTable(mounts, is_own_path, behind=paths)
        paths = {}
    else:
        table = MountTable(mounts, is_own_path)
    return ServedApplication(
        revision=revision,
        description=description,
        methods=methods,
        paths=paths,
        mounts=table,
        models=tuple(models),
        grpc=read_offer(description, methods),
    )
