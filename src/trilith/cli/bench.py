"""`trilith bench`: load on an HTTP endpoint, and where the time goes.

Rule 1: only options become a plan here, and a plan's report becomes text. Measuring is `trilith.measure`'s.
Rule 2: the result goes to standard output, progress and notices to standard error, so that a pipe gets figures alone.
Rule 3: exit status 0: measured; 1: no request succeeded; 130: interrupted. A wrong option or a server that does not
        answer raises a `SetupError`, which the command line reports like every other.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from trilith.errors import InvalidConfig, SetupError

if TYPE_CHECKING:
    from trilith.measure import BenchPlan, BenchReport, Body, Target

_UNITS_S: Final = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_CONTENT_TYPE_JSON: Final = "application/json"


def _file_or_dash(_: object, value: Path | None) -> None:
    if value is not None and str(value).startswith("-") and str(value) != "-":
        raise ValueError(f"expected a file, or - for standard output; got {value}")


_OR_DASH: Final = Parameter(allow_leading_hyphen=True, validator=_file_or_dash)


def bench(
    url: str,
    /,
    *,
    data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),  # text; Path has shells complete file names
    concurrency: str = "1,8,32",
    duration: str = "5s",
    warmup: str = "1s",
    method: str | None = None,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    content_type: str | None = None,
    timeout: str = "30s",
    pid: int | None = None,
    json: Annotated[Path | None, _OR_DASH] = None,
    csv: Annotated[Path | None, _OR_DASH] = None,
) -> int:
    """Measure an HTTP endpoint under load, and show which floor takes the time.

    Works on any HTTP/1.1 server. Trilith also tells where each request spent its time: runtime, service or
    orchestration. Ctrl-C shows what was measured so far.

    Parameters
    ----------
    url
        The endpoint, for example http://127.0.0.1:8000/read.
    data
        A file to send, or JSON text. Give it several times to send several in turn. Without it a body is made
        by what the server's /openapi.json says of the endpoint, or else a GET is sent.
    concurrency
        Requests in flight at each level, separated by commas.
    duration
        Time measured at each level: 500ms, 5s, 2m.
    warmup
        Time of load before each level that is not measured.
    method
        HTTP method; POST with data, GET without.
    header
        A header to send, NAME:VALUE. Give it several times for several headers.
    content_type
        Content type of the data; by default from the file's extension, JSON for text.
    timeout
        Time after which a request without an answer counts as failed.
    pid
        Process id of the server on this machine: its CPU time a request is measured, child processes included.
    json
        Write the whole report to this file as JSON; - is standard output, instead of the table.
    csv
        Write one line a level to this file; - is standard output, instead of the table.
    """
    from trilith.measure import Target, preflight

    target = Target.parse(url)
    bodies, names = _bodies(target, tuple(map(str, data)), content_type, method)
    plan = _plan(
        target, bodies, names, method, _headers(header), concurrency, duration, warmup, timeout, _existing(pid)
    )
    try:
        return _measure(plan, json, csv, with_timelines=preflight(plan))
    except ProcessLookupError as error:
        raise SetupError(f"--pid {pid}: the process ended while it was measured") from error
    except KeyboardInterrupt:
        return 130


def parse_duration_s(option: str, text: str) -> float:
    """Reads `500ms`, `5s`, `2m`, `1h` or a number of seconds.

    Raises:
        InvalidConfig: it is none of them.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)", text.strip())
    if match is None:
        raise InvalidConfig(f"{option} {text!r}: expected a time like 500ms, 5s or 2m")
    return float(match[1]) * _UNITS_S[match[2]]


def parse_concurrency(text: str) -> tuple[int, ...]:
    """Reads `1,8,32`.

    Raises:
        InvalidConfig: it is not a list of whole numbers from 1 to 10,000.
    """
    levels = [part.strip() for part in text.split(",")]
    if not all(level.isdecimal() and 1 <= int(level) <= 10_000 for level in levels):
        raise InvalidConfig(f"--concurrency {text!r}: expected whole numbers from 1 to 10000, like 1,8,32")
    return tuple(int(level) for level in levels)


def _plan(
    target: Target,
    bodies: tuple[Body, ...],
    names: tuple[str, ...],
    method: str | None,
    headers: tuple[tuple[str, str], ...],
    concurrency: str,
    duration: str,
    warmup: str,
    timeout: str,
    pid: int | None,
) -> BenchPlan:
    from trilith.measure import BenchPlan

    duration_s, timeout_s = parse_duration_s("--duration", duration), parse_duration_s("--timeout", timeout)
    for option, given, given_s in (("--duration", duration, duration_s), ("--timeout", timeout, timeout_s)):
        if given_s <= 0:
            raise InvalidConfig(f"{option} must be longer than 0, got {given!r}")
    return BenchPlan(
        target=target,
        method=method.upper() if method is not None else ("POST" if bodies else "GET"),
        bodies=bodies,
        body_names=names,
        headers=headers,
        concurrency=parse_concurrency(concurrency),
        duration_s=duration_s,
        warmup_s=parse_duration_s("--warmup", warmup),
        timeout_s=timeout_s,
        server_pid=pid,
    )


def _bodies(
    target: Target, data: tuple[str, ...], content_type: str | None, method: str | None
) -> tuple[tuple[Body, ...], tuple[str, ...]]:
    """The bodies to send and what the report calls them."""
    from trilith.measure import MADE_BODY, Body, example_body

    bodies, names = [], []
    for item in data:
        if item.lstrip()[:1] in ("{", "[", '"'):
            bodies.append(Body(content=item.encode(), content_type=content_type or _CONTENT_TYPE_JSON))
            names.append("inline")
        else:
            bodies.append(Body.read(Path(item.removeprefix("@")), content_type or ""))
            names.append(item)
    if not data and method in (None, "POST"):
        example = example_body(target)
        if example is not None:
            return (example,), (MADE_BODY,)
    return tuple(bodies), tuple(names)


def _headers(header: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for line in header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise InvalidConfig(f"--header {line!r}: expected NAME:VALUE")
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


def _existing(pid: int | None) -> int | None:
    from trilith.measure import process_tree

    if pid is not None and not process_tree(pid):
        raise InvalidConfig(f"--pid {pid}: there is no such process on this machine")
    return pid


def _measure(plan: BenchPlan, json: Path | None, csv: Path | None, *, with_timelines: bool) -> int:
    import uvloop

    from trilith.measure import run_bench

    progress = _ProgressLine(plan) if sys.stderr.isatty() else None
    report = uvloop.run(run_bench(plan, sample_timelines=with_timelines, on_progress=progress))
    if progress is not None:
        progress.clear()
    _write(report, json, csv)
    if report.interrupted:
        return 130
    return 1 if report.none_succeeded else 0


class _ProgressLine:
    """A bar on standard error, drawn by hand: rich needs milliseconds a frame, which would be the generator's."""

    _WIDTH: Final = 30

    def __init__(self, plan: BenchPlan) -> None:
        self._plan = plan
        self._level_s = plan.warmup_s + plan.duration_s
        self._drawn = (0, -1.0)

    def __call__(self, concurrency: int, elapsed_s: float, answers: int) -> None:
        drawn_level, drawn_at_s = self._drawn
        if concurrency == drawn_level and 0 <= elapsed_s - drawn_at_s < 0.2:
            return
        self._drawn = (concurrency, elapsed_s)
        done = min(self._WIDTH, int(self._WIDTH * elapsed_s / self._level_s))
        state = "warm-up" if elapsed_s < self._plan.warmup_s else f"{answers:,} answers"
        bar = "█" * done + "·" * (self._WIDTH - done)
        sys.stderr.write(f"\r\x1b[2Kconcurrency {concurrency:<5} {bar} {state}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away."""
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def _write(report: BenchReport, json: Path | None, csv: Path | None) -> None:
    from rich.console import Console

    from trilith.measure import render, to_csv, to_json

    table_wanted = True
    for path, content in (
        (json, to_json(report) if json is not None else b""),
        (csv, to_csv(report).encode() if csv is not None else b""),
    ):
        if path is None:
            continue
        if str(path) == "-":
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            table_wanted = False
            continue
        try:
            path.write_bytes(content)
        except OSError as error:
            raise SetupError(f"{path}: the report cannot be written: {error.strerror}") from error
    if table_wanted:
        Console(highlight=False).print(render(report))
