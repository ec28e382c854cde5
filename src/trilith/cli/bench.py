"""`trilith bench`: load on an endpoint, and where the time goes.

Rule 1: only options become a plan here, and a plan's report becomes text. Measuring is `trilith.measure`'s.
Rule 2: the result goes to standard output, progress and notices to standard error, so that a pipe gets figures alone.
Rule 3: exit status 0: measured; 1: no request succeeded; 130: interrupted. A wrong option or a server that does not
        answer raises a `SetupError`, which the command line reports like every other.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from trilith.cli.bench_options import (
    OR_DASH,
    existing,
    of_scenario,
    parse_concurrency,
    parse_duration_s,
    parse_headers,
    parse_rates,
    positive_s,
    read_replay,
)
from trilith.cli.bench_output import ProgressLine, write_report
from trilith.errors import InvalidConfig, SetupError

if TYPE_CHECKING:
    from trilith.measure import BenchPlan, BenchReport


def bench(
    url: str = "",
    /,
    *,
    scenario: Path | None = None,
    data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),  # text; Path has shells complete file names
    concurrency: str = "1,8,32",
    rate: str | None = None,
    arrivals: Literal["poisson", "constant"] = "poisson",
    replay: Path | None = None,
    replay_speed: float = 1.0,
    in_flight: int = 64,
    slo: str | None = None,
    search: Annotated[bool, Parameter(negative="")] = False,
    precision: float = 0.05,
    seed: int = 0,
    duration: str = "5s",
    warmup: str = "1s",
    method: str | None = None,
    model: str | None = None,
    model_version: str = "",
    shape: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    input_data: str | Path = "random",
    proto: Path | None = None,
    connections: int = 0,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    content_type: str | None = None,
    timeout: str = "30s",
    wait: str = "0s",
    pid: int | None = None,
    json: Annotated[Path | None, OR_DASH] = None,
    csv: Annotated[Path | None, OR_DASH] = None,
    html: Annotated[Path | None, OR_DASH] = None,
) -> int:
    """Measure an endpoint under load, and show which floor takes the time.

    Works on any server of HTTP/1.1, gRPC or the Open Inference Protocol. Trilith also tells where each request
    spent its time: runtime, service or orchestration. Ctrl-C shows what was measured so far.

    Parameters
    ----------
    url
        The endpoint: http://127.0.0.1:8000/read, or grpc://127.0.0.1:8001/package.Service/Method. With --model
        the server alone. With --scenario the server for targets that are given as paths.
    scenario
        A YAML file with several targets, their weights and phases of load.
    data
        A file to send, or JSON text; for gRPC the JSON of a request message. Give it several times to send
        several in turn. Without it a body is made by what the server's /openapi.json says of the endpoint,
        or else a GET is sent.
    concurrency
        Requests in flight at each level, separated by commas: each answer is followed by the next request.
    rate
        Instead of that: requests a second at each level, separated by commas, whatever the server answers.
        Latency then runs from when a request was due.
    arrivals
        Of --rate: poisson as from independent callers, or constant.
    replay
        Instead of a rate: a file with a send time in seconds on each line, or below a line interval_us with
        microseconds between requests.
    replay_speed
        2 replays twice as fast.
    in_flight
        Of --rate and --replay: the most requests in flight. What is due beyond waits, and that is measured.
    slo
        The promise to judge by: 80ms (of 99 in a hundred requests) or p95=80ms.
    search
        Look for the highest rate that keeps --slo.
    precision
        Of --search: the share by which the rate found may be too low.
    seed
        Of what is random: one seed, one schedule.
    duration
        Time measured at each level: 500ms, 5s, 2m.
    warmup
        Time of load before each level that is not measured.
    method
        HTTP method; POST with data, GET without.
    model
        A model of an Open Inference Protocol server (Trilith, Triton, ...): its inputs are made from its metadata.
    model_version
        Of --model; by default the server chooses.
    shape
        Of an input of --model whose shape is open: NAME:1,3,224,224.
    input_data
        Of --model: random, zero, a JSON file as perf_analyzer reads it, or a folder with a raw file for each input.
    proto
        A .proto or a descriptor set with the gRPC method; by default the server is asked by reflection.
    connections
        To a gRPC server; by default one for each 100 calls in flight.
    header
        A header to send, NAME:VALUE. Give it several times for several headers.
    content_type
        Content type of the data; by default from the file's extension, JSON for text.
    timeout
        Time after which a request without an answer counts as failed.
    wait
        Time that the server may take to come up, and to give its first good answer.
    pid
        Process id of the server on this machine: its CPU time a request is measured, child processes included.
    json
        Write the whole report to this file as JSON; - is standard output, instead of the table.
    csv
        Write one line a level to this file; - is standard output, instead of the table.
    html
        Write a page with plots to this file, which needs nothing else; - is standard output.
    """
    from trilith.measure import BenchPlan, Slo, SubjectSpec, Target, parse_shapes, plan_for, subject

    if rate is not None and replay is not None:
        raise InvalidConfig("--rate and --replay each say when requests are sent; give one of them")
    if search and (rate is not None or replay is not None):
        raise InvalidConfig("--search chooses the rates itself; leave out --rate and --replay")
    if not 0 < precision <= 1 or replay_speed <= 0 or not 1 <= in_flight <= 10_000:
        raise InvalidConfig("--precision must be above 0 and at most 1, --replay-speed above 0, --in-flight 1 to 10000")
    if not 0 <= connections <= 1000 or (model is None and (shape or model_version or input_data != "random")):
        raise InvalidConfig("--connections must be 0 to 1000; --shape, --input-data and --model-version need --model")
    spec = SubjectSpec(
        url=url,
        data=tuple(map(str, data)),
        method=method,
        content_type=content_type or "",
        headers=parse_headers(header),
        proto=proto,
        model=model or "",
        version=model_version,
        shapes=parse_shapes(shape),
        input_data=str(input_data),
        connections=connections,
        timeout_s=positive_s("--timeout", timeout),
        seed=seed,
    )
    levels = BenchPlan(
        target=Target.parse("http://nowhere"),
        method="",
        bodies=(),
        concurrency=parse_concurrency(concurrency),
        rates_per_s=parse_rates(rate) if rate is not None else (),
        arrivals=arrivals,
        recording=read_replay(replay) if replay is not None else (),
        speed=replay_speed,
        in_flight=in_flight,
        slo=Slo.parse(slo) if slo is not None else None,
        search=search,
        precision=precision,
        seed=seed,
        duration_s=positive_s("--duration", duration),
        warmup_s=parse_duration_s("--warmup", warmup),
        timeout_s=spec.timeout_s,
        server_pid=existing(pid),
    )
    wait_s = parse_duration_s("--wait", wait)
    specs: tuple[SubjectSpec, ...] = (spec,)
    if scenario is not None:
        specs, levels = of_scenario(scenario, spec, levels)
    elif not url:
        raise InvalidConfig("expected a URL, or --scenario FILE; `trilith bench --help` lists what there is")
    if search and levels.slo is None:
        raise InvalidConfig("--search looks for the highest rate that keeps a promise: give --slo too, like --slo 80ms")
    try:
        found = [subject(each, wait_s=wait_s) for each in specs]
        plan = plan_for(levels, found, name=str(scenario or ""))
        report = _measure(plan, with_timelines=any(each.has_timeline for each in found))
    except ProcessLookupError as error:
        raise SetupError(f"--pid {pid}: the process ended while it was measured") from error
    except KeyboardInterrupt:
        print("trilith: interrupted before the load began: nothing was measured", file=sys.stderr)  # noqa: T201
        return 130
    write_report(report, json=json, csv=csv, html=html)
    if report.interrupted:
        return 130
    return 1 if report.none_succeeded else 0


def _measure(plan: BenchPlan, *, with_timelines: bool) -> BenchReport:
    import uvloop

    from trilith.measure import run_bench

    progress = ProgressLine() if sys.stderr.isatty() else None
    report = uvloop.run(run_bench(plan, sample_timelines=with_timelines, on_progress=progress))
    if progress is not None:
        progress.clear()
    return report
