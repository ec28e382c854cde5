"""What a Trilith server on this machine says of itself: its processes, its replicas, its models' batches.

Rule 1: two snapshots, before and after a level, are subtracted; nothing is reset.
Rule 2: what it does not say is left out, and never asked twice.
"""

from __future__ import annotations

import http.client
import re
from typing import Any, Final

import msgspec

from trilith.measure.diagnose.evidence import BatchPoint, Station
from trilith.measure.load import Target
from trilith.measure.process_tree import process_tree
from trilith.orchestration import ServerReport, server_reports

_TIMEOUT_S: Final = 3.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0", "::"})
_SERIES: Final = re.compile(r"^(trilith_model_(?:busy_seconds_total|generation)){([^}]*)} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class ModelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one model, all versions together. `batches`: by size, how many and their seconds."""

    instances: int
    batch_max: int
    batch_wait_s: float | None
    rows: int
    busy_s: float
    generation: int
    batches: dict[int, tuple[int, float]]
    pids: tuple[int, ...] = ()


class ReplicaCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one replica."""

    service: str
    pid: int
    slots: int
    answered: int
    runs: int
    busy_s: float
    restarts: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All counters at an instant."""

    replicas: dict[int, ReplicaCounts]
    batches: dict[str, tuple[int, float | None]]
    models: dict[str, ModelCounts]
    roles: dict[int, str]


def server_at(target: Target) -> ServerReport | None:
    """The Trilith server of this user on this machine that serves the target, or None."""
    for report in server_reports():
        for address in (report.record.http, report.record.grpc):
            host, _, port = address.rpartition(":")
            same_host = host.strip("[]") == target.host or {host.strip("[]"), target.host} <= _LOOPBACK
            if same_host and port == str(target.port):
                return report
    return None


def read_snapshot(target: Target) -> Snapshot | None:
    """The counters now; None when there is no such server here, or it does not answer, or has no metrics port."""
    report = server_at(target)
    if report is None or report.status is None or not report.record.metrics:
        return None
    roles = {report.record.pid: "agent"}
    replicas: dict[int, ReplicaCounts] = {}
    batches: dict[str, tuple[int, float | None]] = {}
    for service in report.status.services:
        restarts = {row.replica_id: row.restarts for row in service.replicas}
        for link in service.links:
            roles[link.pid] = f"replica {service.name}"
            replicas[link.replica_id] = ReplicaCounts(
                service=service.name,
                pid=link.pid,
                slots=link.in_flight + link.room,
                answered=link.answered,
                runs=link.runs,
                busy_s=link.busy_s,
                restarts=restarts.get(link.replica_id, 0),
            )
        if service.batches:
            largest = max(service.batches, key=lambda row: row.max_size)
            wait_s = None if largest.max_wait_ms is None else largest.max_wait_ms / 1000
            batches[service.name] = (largest.max_size, wait_s)
    model_pids: dict[str, tuple[int, ...]] = {}
    for model in report.status.models:
        for pid in filter(None, model.processes):
            roles[pid] = f"model {model.name}"
        model_pids[model.name] = tuple(filter(None, model.processes))
    models = _models(_http_of(report), model_pids) if report.status.models else {}
    return Snapshot(replicas=replicas, batches=batches, models=models, roles=roles)


def _http_of(report: ServerReport) -> Target:
    """Where it serves HTTP, whatever the load is sent by."""
    host, _, port = report.record.http.rpartition(":")
    return Target(host=host.strip("[]"), port=int(port), tls=report.record.tls, path="/")


def watched(snapshot: Snapshot | None, pid: int | None) -> tuple[int, ...]:
    """Those that the server names; else all of its processes."""
    if snapshot is not None:
        return tuple(snapshot.roles)
    return tuple(sample.pid for sample in process_tree(pid)) if pid is not None else ()


def roles_of(snapshot: Snapshot | None, agent: int | None) -> dict[int, str]:
    """What the processes of a server are; the one below the agent that nobody names is the gateway."""
    if snapshot is None or agent is None:
        return {}
    gateways = {sample.pid: "gateway" for sample in process_tree(agent) if sample.parent == agent}
    return {**gateways, **snapshot.roles}


def stations_between(before: Snapshot, after: Snapshot, elapsed_s: float) -> tuple[Station, ...]:
    """What each service and model did between two snapshots in `elapsed_s` of load; idle ones are left out."""
    services = sorted({replica.service for replica in after.replicas.values()})
    found = [_service(name, before, after, elapsed_s) for name in services]
    found += [_model(name, before, after, elapsed_s) for name in sorted(after.models)]
    return tuple(station for station in found if station.calls or station.loads)


def _service(name: str, before: Snapshot, after: Snapshot, elapsed_s: float) -> Station:
    replicas = {number: each for number, each in after.replicas.items() if each.service == name}
    calls, busy = [], []
    runs = 0
    for number, replica in replicas.items():
        earlier = before.replicas.get(number)
        runs += replica.runs - (earlier.runs if earlier else 0)
        calls.append(replica.answered - (earlier.answered if earlier else 0))
        busy.append((replica.busy_s - (earlier.busy_s if earlier else 0.0)) / elapsed_s)
    batch_max, wait_s = after.batches.get(name, (0, None))
    slots = len(replicas) if batch_max else sum(each.slots for each in replicas.values())
    return Station(
        kind="service",
        name=name,
        servers=len(replicas),
        slots=slots,
        calls=sum(calls),
        busy=sum(busy),
        calls_by_server=tuple(calls),
        busy_by_server=tuple(busy),
        batch_max=batch_max,
        batch_wait_s=wait_s,
        batches=(BatchPoint(size=sum(calls) / runs, seconds=sum(busy) * elapsed_s / runs, count=runs),)
        if batch_max and runs
        else (),
        loads=len(replicas.keys() - before.replicas.keys()),
        pids=tuple(each.pid for each in replicas.values()),
    )


def _model(name: str, before: Snapshot, after: Snapshot, elapsed_s: float) -> Station:
    now = after.models[name]
    earlier = before.models.get(name)
    points = []
    for size, (count, seconds) in sorted(now.batches.items()):
        count_before, seconds_before = earlier.batches.get(size, (0, 0.0)) if earlier else (0, 0.0)
        if count > count_before:
            new = count - count_before
            points.append(BatchPoint(size=size, seconds=(seconds - seconds_before) / new, count=new))
    busy_s = sum(point.seconds * point.count for point in points)
    return Station(
        kind="model",
        name=name,
        servers=now.instances,
        slots=now.instances,
        calls=now.rows - (earlier.rows if earlier else 0),
        busy=busy_s / elapsed_s,
        batch_max=now.batch_max,
        batch_wait_s=now.batch_wait_s,
        batches=tuple(points),
        loads=now.generation - (earlier.generation if earlier else 0),
        pids=now.pids,
    )


def _models(target: Target, pids: dict[str, tuple[int, ...]]) -> dict[str, ModelCounts]:
    """Counters of all models, from the endpoints that any client may ask."""
    statistics = _get(target, "/v2/models/stats")
    generations: dict[str, int] = {}
    for series, labels, value in _SERIES.findall(_text(target, "/metrics") or ""):
        named = dict(_LABEL.findall(labels))
        if series.endswith("generation"):
            generations[named.get("model", "")] = generations.get(named.get("model", ""), 0) + int(float(value))
    found: dict[str, ModelCounts] = {}
    for entry in (statistics or {}).get("model_stats", ()):
        name = entry["name"]
        config = _get(target, f"/v2/models/{name}/config") or {}
        batching = config.get("dynamic_batching")
        batches: dict[int, tuple[int, float]] = {}
        for batch in entry["batch_stats"]:
            parts = [batch[part] for part in ("compute_input", "compute_infer", "compute_output")]
            batches[batch["batch_size"]] = (parts[1]["count"], sum(part["ns"] for part in parts) / 1e9)
        found[name] = ModelCounts(
            instances=sum(int(group.get("count", 1)) for group in config.get("instance_group", ())) or 1,
            batch_max=int(config.get("max_batch_size", 0))
            if batching is not None
            else min(1, int(config.get("max_batch_size", 0))),
            batch_wait_s=None
            if not batching or not batching.get("max_queue_delay_microseconds")
            else int(batching["max_queue_delay_microseconds"]) / 1e6,
            rows=int(entry["inference_count"]),
            busy_s=sum(seconds for _, seconds in batches.values()),
            generation=generations.get(name, 0),
            batches=batches,
            pids=pids.get(name, ()),
        )
    return found


def _get(target: Target, path: str) -> Any:
    text = _text(target, path)
    try:
        return None if text is None else msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _text(target: Target, path: str) -> str | None:
    if target.tls:
        return None
    connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return content.decode("utf-8", "replace") if answer.status == 200 else None
