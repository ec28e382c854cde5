"""The lines that the agent shows to a person, as text. Pure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from trilith.orchestration.reconcile import DesiredService

_MOST_SHOWN = 10


def cause(code: int) -> str:
    """Why a process ended, by its exit code; a negative one is a signal."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def replicas_that_run(desired: Sequence[DesiredService], running: Callable[[str, int], int]) -> str:
    """How many of each service's replicas run."""
    return ", ".join(
        f"{entry.service}: {running(entry.service, entry.revision)} of {entry.replicas} replicas run"
        for entry in desired
    )


def ready(
    *,
    http: str,
    grpc: str,
    metrics: str,
    tls: bool,
    repository: bool,
    desired: Sequence[DesiredService],
    not_ready: Sequence[str] = (),
    none_ready: bool = False,
    mounts: Sequence[str] = (),
    methods: bool = True,
    docs_need_key: bool = False,
) -> str:
    """That everything is up, and where; or that all but some models are.

    Args:
        http, grpc, metrics: addresses as HOST:PORT; "" for a port that is off.
        tls: the HTTP port speaks TLS.
        repository: models are served and no service.
        desired: the services that run.
        not_ready: names of models that are not served, though they should be.
        none_ready: they are all that there are.
        mounts: paths of applications that answer HTTP by themselves.
        methods: the service has methods, too.
        docs_need_key: who looks at `/docs` must show a key, which a browser cannot.
    """
    services = ", ".join(f"{entry.service} x {entry.replicas}" for entry in desired)
    first_look = "/v2" if repository else "/docs"
    if mounts and not methods:
        first_look = mounts[0]  # the page of methods is empty
    elif docs_need_key and not repository:
        first_look = f"{first_look}: it needs a key, unless the file of keys has `public: [/docs, /openapi.json]`"
    state, scheme = "partly ready" if not_ready else "ready", "https" if tls else "http"
    if none_ready:
        state = "no model is ready"
    line = f"{state}: {scheme}://{http} (try {first_look})"
    line += f"  gRPC {grpc}" if grpc else ""
    line += f"  metrics http://{metrics}/metrics" if metrics else ""
    line += f"  [{services}]" if services else ""
    line += f"  mounts {', '.join(mounts)}" if mounts else ""
    if "/" in mounts:
        line += " (/docs, /openapi.json, /metrics, /livez, /readyz and /v2 are Trilith's own)"
    if not_ready:
        shown = ", ".join(not_ready[:_MOST_SHOWN]) + (" ..." if len(not_ready) > _MOST_SHOWN else "")
        line += f"  not ready: {shown}"
    return line
