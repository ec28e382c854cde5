"""`trilith plan`: how many replicas and machines a rate takes.

Rule 1: only options become a demand here, and a plan becomes text. Deciding is `trilith.measure.capacity`'s.
Rule 2: the result goes to standard output, what is being measured to standard error.
Rule 3: exit status 0: there is a plan; 1: --check does not show that it holds; 130: interrupted. Wrong options,
        targets that do not answer and demands that nothing meets raise a `SetupError`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trilith.cli.bench_options import OR_DASH, existing, parse_duration_s, parse_headers, positive_s
from trilith.cli.compare import parse_share
from trilith.cli.printing import report_console, store
from trilith.errors import InvalidConfig, SetupError

if TYPE_CHECKING:
    from trilith.measure import BenchPlan, SubjectSpec
    from trilith.measure.capacity import CapacityPlan, CheckResult, Demand, MeasuredPoint


def plan(
    *sources: str,
    rate: float,
    p99: str | None = None,
    p95: str | None = None,
    replicas: int = 1,
    cores_per_machine: float | None = None,
    replicas_per_machine: int | None = None,
    price_per_hour: float | None = None,
    most_busy: str = "80%",
    spare: int = 0,
    check: Annotated[bool, Parameter(negative="")] = False,
    check_duration: str = "10s",
    data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),
    duration: str = "3s",
    warmup: str = "500ms",
    method: str | None = None,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    content_type: str | None = None,
    proto: Path | None = None,
    model: str | None = None,
    timeout: str = "30s",
    pid: int | None = None,
    json: Annotated[Path | None, OR_DASH] = None,
) -> int:
    """Say how many replicas and machines a rate takes, from what was measured of a service.

    Parameters
    ----------
    sources
        A report of `trilith bench URL --json FILE` with a level of one request in flight, or several of one service; or
        the endpoint, which is measured now.
    rate
        Requests a second that must be answered.
    p99
        The latency that 99 of 100 of them may take: 80ms.
    p95
        The same for 95 of 100; give one of the two.
    replicas
        How many replicas the measured service has.
    cores_per_machine
        Cores of a machine; with --pid, or a report made with it, this says how many replicas it holds.
    replicas_per_machine
        How many replicas a machine holds, when you know it.
    price_per_hour
        Of one machine, in any currency: what a million requests cost.
    most_busy
        The highest utilisation that is planned with.
    spare
        Replicas more than the load needs, so that some may fail.
    check
        Send the planned rate to the endpoint, or the share of it that its replicas would get, and say whether it holds.
    check_duration
        Time of that.
    data
        What to send to the endpoint, as for bench.
    duration
        Time measured at each level.
    warmup
        Time of load before each level that is not measured.
    method
        HTTP method; POST with data, GET without.
    header
        A header to send, NAME:VALUE.
    content_type
        Content type of the data.
    proto
        Of a gRPC endpoint without reflection: its .proto, or a descriptor set.
    model
        A model of the server that the URL names; its inputs are made.
    timeout
        Time after which a request without an answer counts as failed.
    pid
        Process id of the server on this machine: its CPU time a request is measured.
    json
        Write the plan to this file as JSON; - is standard output, instead of the table.
    """
    from trilith.measure import SubjectSpec
    from trilith.measure.capacity import fit_service, plan_capacity

    demand = _demand(
        rate,
        p99,
        p95,
        cores_per_machine,
        replicas_per_machine,
        price_per_hour,
        parse_share("--most-busy", most_busy),
        spare,
    )
    if replicas < 1:
        raise InvalidConfig(f"--replicas {replicas}: the measured service has one or more")
    if len(sources) != 1 and not (sources and all(map(_is_file, sources))):
        raise InvalidConfig(f"expected an endpoint, or reports of `trilith bench --json FILE`; got {sources or 'none'}")
    source = sources[0]
    if _is_file(source):
        if check:
            raise InvalidConfig("--check sends requests: give the endpoint to plan for instead of a report")
        points = [point for file in sources for point in _read(file)]
        _write(plan_capacity(fit_service(points, replicas), demand, replicas), None, json)
        return 0
    spec = SubjectSpec(
        url=source,
        data=tuple(map(str, data)),
        method=method,
        content_type=content_type or "",
        headers=parse_headers(header),
        proto=proto,
        model=model or "",
        timeout_s=positive_s("--timeout", timeout),
    )
    bench = _bench_plan(spec, duration, warmup, pid)
    points, interrupted = _measure(bench)
    if interrupted and not any(point.answers for point in points):
        return 130
    found, checked = plan_capacity(fit_service(points, replicas), demand, replicas), None
    if check and not interrupted:
        checked = _check(
            replace(bench, duration_s=parse_duration_s("--check-duration", check_duration)), found, replicas
        )
    _write(found, checked, json)
    if interrupted or (check and checked is None):
        return 130
    return 1 if checked is not None and not checked.holds else 0


def _demand(
    rate: float,
    p99: str | None,
    p95: str | None,
    cores_per_machine: float | None,
    replicas_per_machine: int | None,
    price_per_hour: float | None,
    most_busy: float,
    spare: int,
) -> Demand:
    from trilith.measure.capacity import Demand

    given = {0.99: p99, 0.95: p95}
    limits = {fraction: text for fraction, text in given.items() if text is not None}
    if len(limits) != 1:
        raise InvalidConfig("give the latency that the requests may take: --p99 80ms, or --p95 80ms")
    [(fraction, text)] = limits.items()
    return Demand(
        rate_per_s=rate,
        limit_s=parse_duration_s(f"--p{fraction * 100:g}", text),
        fraction=fraction,
        most_busy=most_busy,
        cores_per_machine=cores_per_machine,
        price_per_hour=price_per_hour,
        spare=spare,
        replicas_per_machine=replicas_per_machine,
    )


def _is_file(source: str) -> bool:
    return "://" not in source and (source.endswith(".json") or Path(source).is_file())


def _read(source: str) -> list[MeasuredPoint]:
    from trilith.measure.capacity import points_of_json

    try:
        return points_of_json(Path(source).read_bytes(), source)
    except OSError as error:
        raise InvalidConfig(f"{source}: cannot be read: {error.strerror}") from error


def _bench_plan(spec: SubjectSpec, duration: str, warmup: str, pid: int | None) -> BenchPlan:
    from trilith.measure import BenchPlan, subject

    found = subject(spec)
    return BenchPlan(
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


def _measure(bench: BenchPlan) -> tuple[list[MeasuredPoint], bool]:
    """The measured points, and whether the measurement was interrupted."""
    import uvloop

    from trilith.measure.capacity import measure_service, points_of_levels

    try:
        measured = uvloop.run(measure_service(bench, _tell))
    except ProcessLookupError as error:
        raise SetupError(f"--pid {bench.server_pid}: the process ended while it was measured") from error
    except KeyboardInterrupt:
        return [], True
    return points_of_levels(measured.levels), measured.interrupted


def _check(bench: BenchPlan, found: CapacityPlan, replicas: int) -> CheckResult | None:
    """What the running service does under its share; None when it was interrupted."""
    import uvloop

    from trilith.measure.capacity import check_of, replay_rate, share_of_running

    rate_per_s = share_of_running(found, replicas)
    _tell(f"{rate_per_s:,.3g} a second, to check the plan")
    try:
        level = uvloop.run(replay_rate(bench, rate_per_s))
    except KeyboardInterrupt:
        return None
    return None if level is None else check_of(found, replicas, level)


def _tell(words: str) -> None:
    sys.stderr.write(f"measuring: {words}\n")


def _write(found: CapacityPlan, checked: CheckResult | None, json: Path | None) -> None:
    from trilith.measure.capacity import capacity_to_json, render_capacity

    if json is not None and store(json, capacity_to_json(found, checked), "plan"):
        return
    report_console().print(render_capacity(found, checked))
