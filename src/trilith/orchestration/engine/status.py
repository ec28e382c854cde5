"""What `trilith status` shows, as one document. Served on the metrics port at /status."""

from __future__ import annotations

from trilith.orchestration.engine.control import ReplicaRow
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.status_types import (
    BatchRow,
    LinkRow,
    LoadStatus,
    ModelStatus,
    ServerStatus,
    ServiceStatus,
)
from trilith.runtime import Runtime


def status_document(
    router: Router, runtime: Runtime, rows: list[ReplicaRow], *, ready: bool, draining: bool
) -> ServerStatus:
    """The server now; `ready` as the probe says it."""
    services = [
        ServiceStatus(
            name=deployment.service,
            serving=sum(not link.unready for link in deployment.replicas),
            waiting=router.waiting(deployment.service),
            in_flight=deployment.in_flight,
            replicas=[row for row in rows if row.service == deployment.service],
            links=[
                LinkRow(
                    replica_id=link.replica_id,
                    pid=link.pid,
                    in_flight=link.in_flight,
                    room=link.room,
                    answered=link.answered,
                    runs=link.runs,
                    busy_s=link.busy_s,
                )
                for link in deployment.replicas
            ],
            batches=[
                BatchRow(
                    method=route.method,
                    max_size=route.batch_rows,
                    max_wait_ms=None if route.batch_wait_s is None else route.batch_wait_s * 1000,
                )
                for route in router.batched(deployment.service)
            ],
        )
        for deployment in router.deployments
    ]
    models = [
        ModelStatus(
            name=model.name,
            version=model.version,
            state=str(model.state),
            reason=model.reason,
            processes=list(runtime.processes(model.name, model.version, model.namespace)),
            namespace=model.namespace,
        )
        for model in runtime.models()
    ]
    found = runtime.load_statistics()
    loads = LoadStatus(waiting=found.waiting, running=found.running, left_behind=found.left_behind)
    return ServerStatus(ready=ready, draining=draining, services=services, models=models, loads=loads)
