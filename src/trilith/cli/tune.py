"""`trilith tune`: which settings serve best, found by running copies, and written where they belong.

Rule 1: only options become a plan here, and a result becomes text and files. Searching is `trilith.measure.tune`'s.
Rule 2: the result goes to standard output, progress to standard error.
Rule 3: exit status 0: there is a winner that keeps every bound; 1: there is none; 130: interrupted. Options that are
        wrong, and a target that does not start or answer, raise a `SetupError`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from trilith.cli.bench_options import OR_DASH, parse_concurrency, parse_duration_s, parse_headers, positive_s
from trilith.cli.printing import store
from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig

if TYPE_CHECKING:
    from trilith.config import Settings
    from trilith.measure.tune import Declared, FileChange, Load, Space, Step, TunePlan, TuneResult

_JSON: Final = "application/json"
_WIDTH: Final = 160  # of what is no terminal
_STATE: Final = "trilith-tune.json"


def tune(
    target: Annotated[str | Path, Parameter(show_default=False)],
    /,
    *,
    data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),
    path: str | None = None,
    method: str | None = None,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    content_type: str | None = None,
    objective: Literal["throughput", "cost"] = "throughput",
    p99: str | None = None,
    rate: float = 0.0,
    space: str = "defaults",
    concurrency: str | None = None,
    duration: str = "6s",
    warmup: str = "1s",
    timeout: str = "30s",
    budget: float | None = None,
    check: str | None = None,
    config: Path | None = None,
    models: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    state: Path = Path(_STATE),
    again: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[Path | None, OR_DASH] = None,
) -> int:
    """Find the settings by which a target serves best, and write them where they belong.

    Copies of the target run on ports of their own, one after the other, with different settings and the same load. What
    runs meanwhile stays as it is, but shares the machine: tune where nothing else is busy. Ctrl-C shows what was found
    so far, and the same command goes on from there.

    Parameters
    ----------
    target
        What `trilith serve` takes: `app.py:Name`, `module:Name`, or a folder of models.
    data
        A file to send, or JSON text. May be given several times. Without it a body is made by what /openapi.json says.
    path
        Path of the endpoint: `/read`, `/v2/models/NAME/infer`. By default that of the only method.
    method
        HTTP method; POST with data, GET without.
    header
        A header to send, NAME:VALUE. May be given several times.
    content_type
        Content type of the data; by default from the file's extension, JSON for text.
    objective
        `throughput`: most answers a second. `cost`: least CPU a request.
    p99
        Bound on the 99th percentile of the latency: 200ms.
    rate
        With `cost`: so many answers a second must be possible.
    space
        YAML file of settings and the values to try, `Recognizer.replicas: [1, 2]`; `defaults`: replicas, batches,
        instances and threads.
    concurrency
        Requests in flight, separated by commas; a configuration counts by its best level. By default 8, with --p99
        1,4,16.
    duration
        Time of a measurement of the usual length, at each level. The budget is counted in it; each is half as long.
    warmup
        Time of load before each that is not measured.
    timeout
        Time after which a request without an answer counts as failed.
    budget
        Measurements of the usual length, all together; by default a fifth of those of a sweep, 8 to 40.
    check
        Command that says whether answers are right, for settings that may change them (backend, precision): it finds
        the copy's address in TRILITH_URL, and ends with 0 when they are.
    config
        Settings that stay, as for `trilith serve`; the winner is written there.
    models
        A folder in which `trilith.model(NAME)` looks first, as for `trilith serve`.
    state
        File in which it is kept what was measured.
    again
        Begin anew, whatever that file holds.
    dry_run
        Show what would be written, and write nothing.
    yes
        Write without asking.
    json
        Write the result to this file as JSON; - is standard output, instead of the table.
    """
    from trilith.config import read_settings
    from trilith.measure.tune import CopyPlan, Objective, TunePlan, command_check, read_declared

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what ends it ends the copy first
    if objective == "cost" and not rate > 0:
        raise InvalidConfig("--objective cost needs --rate: how many answers a second it must be able to give")
    if objective != "cost" and rate:
        raise InvalidConfig(f"--rate {plain_number(rate)} is for --objective cost")
    if budget is not None and not 1 <= budget <= 10_000:
        raise InvalidConfig(f"--budget must be a number from 1 to 10000, got {plain_number(budget)}")
    target = str(target)
    settings = read_settings(config, ())
    declared = read_declared(target, folder=Path.cwd(), settings=settings, model_roots=models)
    options = [*(("--config", str(config)) if config is not None else ())]
    for folder in models:
        options += ["--models", str(folder)]
    plan = TunePlan(
        copy=CopyPlan(target=target, options=tuple(options)),
        space=_space(space, declared),
        objective=Objective(
            kind=objective, p99_s=None if p99 is None else positive_s("--p99", p99), rate_per_s=rate
        ),
        load=_load(
            declared, tuple(map(str, data)), path, method, header, content_type,
            concurrency or ("8" if p99 is None else "1,4,16"), duration, warmup, timeout,
        ),
        budget=budget,
        check=None if check is None else command_check(check),
        state=state,
        files=(*declared.places, *((config,) if config is not None else ())),
    )  # fmt: skip
    if again:
        state.unlink(missing_ok=True)
    result = _search(plan)
    _tell(result, json)
    if result.interrupted:
        sys.stderr.write(f"The same command goes on from here: {state} has what was measured.\n")
        return 130
    if result.verdict.winner is None or not result.verdict.meets:
        return 1
    _write(_changes(result, target, config, settings), dry_run=dry_run, yes=yes, target=target)
    return 0


def _space(given: str, declared: Declared) -> Space:
    from trilith.config import load_yaml
    from trilith.measure.tune import Space, current_value, default_space, knob

    if given == "defaults":
        return default_space(declared, len(os.sched_getaffinity(0)))
    knobs = []
    for path, values in load_yaml(Path(given), dict[str, Any]).items():
        paths = [each.strip() for each in path.split("+")]
        unknown = [each for each in paths if _owner(each) not in _owners(declared)]
        if unknown:
            raise InvalidConfig(
                f"--space {given}: {unknown[0]}: there is no {_owner(unknown[0])}; there is "
                f"{', '.join(sorted(_owners(declared))) or 'nothing'}"
            )
        knobs.append(knob(path, values, current=current_value(declared, paths)))
    return Space(knobs)


def _owner(path: str) -> str:
    from trilith.config import path_steps

    section, name, *_ = path_steps(path)
    return f"{section.removesuffix('s')} {name}"


def _owners(declared: Declared) -> set[str]:
    return {f"service {each.name}" for each in declared.services} | {f"model {each.name}" for each in declared.models}


def _load(
    declared: Declared,
    data: tuple[str, ...],
    path: str | None,
    method: str | None,
    header: tuple[str, ...],
    content_type: str | None,
    concurrency: str,
    duration: str,
    warmup: str,
    timeout: str,
) -> Load:
    from trilith.measure import Body
    from trilith.measure.tune import Load

    bodies = []
    for item in data:
        if item.lstrip()[:1] in ("{", "[", '"'):
            bodies.append(Body(content=item.encode(), content_type=content_type or _JSON))
        else:
            bodies.append(Body.read(Path(item.removeprefix("@")), content_type or ""))
    makes_body = not data and method in (None, "POST")
    return Load(
        path=path if path is not None else _only_path(declared),
        method=method.upper() if method is not None else "POST",
        bodies=tuple(bodies),
        makes_body=makes_body,
        headers=parse_headers(header),
        concurrency=parse_concurrency(concurrency),
        duration_s=positive_s("--duration", duration),
        warmup_s=parse_duration_s("--warmup", warmup),
        timeout_s=positive_s("--timeout", timeout),
    )


def _only_path(declared: Declared) -> str:
    if not declared.services:
        name = declared.models[0].name if declared.models else "NAME"
        raise InvalidConfig(f"say where the load goes: --path /v2/models/{name}/infer")
    paths = [method.path for method in declared.services[0].methods]
    if len(paths) != 1:
        raise InvalidConfig(
            f"say where the load goes: --path {paths[0] if paths else '/PATH'}"
            + (f"; {declared.services[0].name} has {', '.join(paths)}" if paths else "")
        )
    return paths[0]


def _search(plan: TunePlan) -> TuneResult:
    from trilith.measure.tune import step_line
    from trilith.measure.tune import tune as search

    live = sys.stderr.isatty()
    sys.stderr.write(
        f"{plan.space.size:,} configurations of {len(plan.space.knobs)} settings; {plan.measurements:g} measurements "
        f"for {plan.objective}\n"
    )

    def told(step: Step) -> None:
        if step.observation is not None:
            line = step_line(step, plan.space, plan.objective, plan.measurements)
            sys.stderr.write(f"\r\x1b[2K{line}\n" if live else f"{line}\n")
        elif live:
            sys.stderr.write(f"{step.number:>3}  measuring ...")
        sys.stderr.flush()

    return search(plan, told)


def _tell(result: TuneResult, json: Path | None) -> None:
    import msgspec
    from rich.console import Console

    from trilith.measure.tune import as_values, explanation, trade_offs

    content = msgspec.json.format(msgspec.json.encode(as_values(result)), indent=2) + b"\n"
    if store(json, content, "result"):
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    if result.verdict.rows:
        console.print(trade_offs(result.verdict, result.tuner.space))
    for line in explanation(result):
        console.print(line, markup=False, soft_wrap=True)


def _changes(result: TuneResult, target: str, config: Path | None, settings: Settings) -> list[FileChange]:
    from trilith.measure.tune import SETTINGS_FILE, changed_settings, plan_changes

    winner = result.verdict.winner
    if winner is None:
        return []
    place, _, _ = target.partition(":")
    repository = Path(target) if Path(target).is_dir() else None
    beside = Path(place).parent if place.endswith(".py") else Path()
    return plan_changes(
        changed_settings(result.tuner.space, winner),
        settings_file=config if config is not None else beside / SETTINGS_FILE,
        repository=None if settings.models else repository,
    )


def _write(changes: list[FileChange], *, dry_run: bool, yes: bool, target: str) -> None:
    from trilith.measure.tune import SETTINGS_FILE

    if not changes:
        sys.stderr.write("Nothing is to be changed.\n")
        return
    for change in changes:
        sys.stdout.write(f"\n{change.diff}")
    sys.stdout.flush()
    if dry_run:
        return
    if not yes:
        if not sys.stdin.isatty():
            sys.stderr.write("Nothing was written: nobody is there to ask. --yes writes it, --dry-run only shows it.\n")
            return
        sys.stderr.write("\nWrite this? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stderr.write("Nothing was written.\n")
            return
    for change in changes:
        change.write()
        sys.stderr.write(f"Written: {change.path}\n")
    of_server = next((change.path for change in changes if change.path.name == SETTINGS_FILE), None)
    if of_server is not None:
        sys.stderr.write(f"Serve with it: trilith serve {target} --config {of_server}\n")
