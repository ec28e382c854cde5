"""`trilith status`: the servers of this user, what runs in them, and whether it is well."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from trilith.orchestration import ServerReport, ServerStatus, ServiceStatus


def status(*, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show the servers that run on this machine.

    Parameters
    ----------
    json
        Print JSON instead of tables.

    Returns
    -------
    int
        The exit status: 0 when servers run and all of them are ready, else 1.
    """
    from trilith.orchestration import server_reports

    reports = server_reports()
    if json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(reports)).decode() + "\n")
    elif not reports:
        sys.stdout.write("no server is running; start one with `trilith serve TARGET`\n")
    else:
        _show(reports)
    return 0 if reports and all(report.status is not None and report.status.ready for report in reports) else 1


def _state(found: ServerStatus) -> str:
    return "draining" if found.draining else "ready" if found.ready else "not ready"


def _show(reports: list[ServerReport]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for number, report in enumerate(reports):
        if number:
            console.print()
        record, found = report.record, report.status
        state = "does not answer" if found is None else _state(found)
        scheme = "https" if record.tls else "http"
        where = f"pid {record.pid}  {scheme} {record.http}  gRPC {record.grpc or 'off'}"
        where += "" if record.metrics else "  metrics off: no more is known"
        console.print(f"[bold]{record.target}[/]  {state}  {where}  in {record.folder}", soft_wrap=True)
        if found is None:
            continue
        if found.services:
            table = Table("service", "replica", "state", "pid", "restarts", "in flight", "waiting", box=None)
            for service in found.services:
                for row in service.replicas:
                    table.add_row(
                        service.name,
                        str(row.replica_id),
                        row.state,
                        str(row.pid),
                        str(row.restarts),
                        str(service.in_flight),
                        str(service.waiting),
                    )
            console.print(table)
            for service in found.services:
                hint = waiting_hint(service)
                if hint:
                    console.print(hint, highlight=False)
        if found.loads.left_behind:
            console.print(f"{found.loads.left_behind} loads of models were given up and still run")
        if found.models:
            table = Table("model", "version", "state", "pid", "", box=None)
            for model in found.models:
                pids = ", ".join(str(pid) if pid else "starting" for pid in model.processes)
                name = f"{model.name} of {model.namespace}" if model.namespace else model.name
                table.add_row(name, model.version, model.state, pids, model.reason)
            console.print(table)


def waiting_hint(service: ServiceStatus) -> str:
    """Why calls of a service wait, and what is to be done for it; "" when none do, or a replica has room."""
    if not service.waiting or not service.links or any(link.room for link in service.links):
        return ""
    most = max(link.in_flight for link in service.links)
    calls = "1 call waits" if service.waiting == 1 else f"{service.waiting} calls wait"
    each = "its replica works" if len(service.links) == 1 else f"each of its {len(service.links)} replicas works"
    return (
        f"{service.name}: {calls}: {each} on {most} at a time, which is all that it takes. If they wait for something"
        " there, more threads (of plain methods) or more concurrency helps, else more replicas: options of"
        " @trilith.service"
    )
