"""`trilith diagnose`: which floor is the bottleneck, and what would help by how much.

Rule 1: only options become a plan here, and a diagnosis becomes text. Measuring is `trilith.measure.diagnose`'s.
Rule 2: the result goes to standard output, progress to standard error.
Rule 3: exit status 0: there is a verdict, "there is room" included; 1: none can be given, and it is said why; 130:
        interrupted, with what was seen until then. Wrong options and a target that does not answer are a `SetupError`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trilith.cli.bench_options import OR_DASH, existing, given_bodies, parse_duration_s, parse_headers, positive_s
from trilith.cli.printing import report_console, store
from trilith.errors import InvalidConfig, SetupError

if TYPE_CHECKING:
    from trilith.measure import BenchPlan
    from trilith.measure.diagnose import Diagnosis

_MOST = 10_000


def diagnose(
    url: str,
    /,
    *,
    data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),
    duration: str = "2s",
    warmup: str = "500ms",
    max_load: int = 64,
    max_noise: float = 1.0,
    method: str | None = None,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    content_type: str | None = None,
    proto: Path | None = None,
    model: str | None = None,
    timeout: str = "30s",
    pid: int | None = None,
    verify: Annotated[bool, Parameter(negative="")] = False,
    workflow: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[Path | None, OR_DASH] = None,
    html: Path | None = None,
) -> int:
    """Find the bottleneck of an endpoint: which floor, which stage, and what would help by how much.

    Puts 1, 2, 4, 8 ... requests in flight until more load gives no more, and looks at the answers, the timelines,
    the processes and the server's own counters meanwhile. Of a Trilith server on this machine it sees all of it; of
    another HTTP server what --pid and the answers tell.

    Parameters
    ----------
    url
        The endpoint, for example http://127.0.0.1:8000/read, or grpc://HOST:PORT/package.Service/Method.
    data
        A file to send, or JSON text, as for bench.
    duration
        Time measured at each load, at least: 500ms, 2s.
    warmup
        Time of load before each that is not measured.
    max_load
        The largest number of requests in flight.
    max_noise
        How unsteady the machine may be for a verdict: 1.0 means that one piece of work in ten takes twice as long as
        an equal one.
    method
        HTTP method; POST with data, GET without.
    header
        A header to send, NAME:VALUE. Give it several times for several headers.
    content_type
        Content type of the data; by default from the file's extension, JSON for text.
    proto
        Of a gRPC method on a server without reflection: its .proto, or a descriptor set.
    model
        A model of the server that the URL names; its inputs are made.
    timeout
        Time after which a request without an answer counts as failed.
    pid
        Process id of a server on this machine that is not Trilith's; Trilith's is found by itself.
    verify
        Try the first change that a setting can make, on a copy beside the running server: predicted beside measured.
    workflow
        Time the other bottleneck, the way from an edit to an answer: give app.py:Name instead of a URL. A copy of its
        folder is served and edited.
    json
        Write everything to this file as JSON; - is standard output, instead of the text.
    html
        Write the whole report to this file: one page that needs nothing else.
    """
    from trilith.measure.diagnose import diagnose as run

    if workflow:
        return _time_workflow(url, json)
    if url.startswith(("grpc://", "grpcs://")) or model is not None or proto is not None:
        plan, tells_time = _traffic_plan(url, data, duration, warmup, header, content_type, timeout, pid, proto, model)
    else:
        plan, tells_time = _plan(url, data, duration, warmup, method, header, content_type, timeout, pid), None
    if not 1 <= max_load <= _MOST:
        raise InvalidConfig(f"--max-load {max_load}: expected a whole number from 1 to {_MOST}")
    if max_noise <= 0:
        raise InvalidConfig(f"--max-noise {max_noise:g}: expected a number above 0")
    try:
        found = run(
            plan,
            largest=max_load,
            noisiest=max_noise,
            try_change=verify,
            tells_time=tells_time,
            on_progress=_progress(),
        )
    except ProcessLookupError as error:
        named = f"--pid {pid}: " if pid is not None else ""
        raise SetupError(f"{named}the server at {url} ended while it was measured; its log says why") from error
    except KeyboardInterrupt:
        return 130
    finally:
        _clear()
    _write(found, json, html)
    if found.evidence.interrupted:
        return 130
    return 1 if found.verdict.floor == "unknown" else 0


def _time_workflow(target: str, json: Path | None) -> int:
    import msgspec

    from trilith.measure.diagnose import render_workflow, time_workflow

    try:
        found = time_workflow(target, on_progress=_progress())
    except KeyboardInterrupt:
        return 130
    finally:
        _clear()
    raw = msgspec.json.encode({"schema": "trilith-workflow/1", "slowest": found.slowest, **msgspec.to_builtins(found)})
    store(json, msgspec.json.format(raw, indent=2) + b"\n")
    if json is None or str(json) != "-":
        report_console().print(render_workflow(found))
    return 0 if found.slowest is not None else 1


def _plan(
    url: str,
    data: tuple[str | Path, ...],
    duration: str,
    warmup: str,
    method: str | None,
    header: tuple[str, ...],
    content_type: str | None,
    timeout: str,
    pid: int | None,
) -> BenchPlan:
    from trilith.measure import BenchPlan, Target

    target = Target.parse(url)
    bodies, names = given_bodies(target, tuple(map(str, data)), content_type, method)
    return BenchPlan(
        target=target,
        method=method.upper() if method is not None else ("POST" if bodies else "GET"),
        bodies=bodies,
        body_names=names,
        headers=parse_headers(header),
        duration_s=positive_s("--duration", duration),
        warmup_s=parse_duration_s("--warmup", warmup),
        timeout_s=positive_s("--timeout", timeout),
        server_pid=existing(pid),
    )


def _traffic_plan(
    url: str,
    data: tuple[str | Path, ...],
    duration: str,
    warmup: str,
    header: tuple[str, ...],
    content_type: str | None,
    timeout: str,
    pid: int | None,
    proto: Path | None,
    model: str | None,
) -> tuple[BenchPlan, bool]:
    """A plan for gRPC, or for a model whose inputs are made; and whether its answers tell their timeline."""
    from trilith.measure import BenchPlan, SubjectSpec, subject

    spec = SubjectSpec(
        url=url,
        data=tuple(map(str, data)),
        content_type=content_type or "",
        headers=parse_headers(header),
        proto=proto,
        model=model or "",
        timeout_s=positive_s("--timeout", timeout),
    )
    found = subject(spec)
    plan = BenchPlan(
        target=found.target,
        method=found.method,
        bodies=(),
        body_names=found.bodies,
        traffic=(found.traffic,),
        url=found.url,
        duration_s=positive_s("--duration", duration),
        warmup_s=parse_duration_s("--warmup", warmup),
        timeout_s=spec.timeout_s,
        server_pid=existing(pid),
    )
    return plan, found.has_timeline


def _progress() -> Callable[[str], None] | None:
    """What is done now, on one line of a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def tell(what: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{what} ...")
        sys.stderr.flush()

    return tell


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def _write(found: Diagnosis, json: Path | None, html: Path | None) -> None:
    from trilith.measure.diagnose import render, to_html, to_json

    store(json, to_json(found) if json is not None else b"")
    store(html, to_html(found).encode() if html is not None else b"")
    if json is None or str(json) != "-":
        report_console().print(render(found))
