"""`trilith compare`: several endpoints under the same load, in turn, and by how much one is better.

Rule 1: only options become a plan here, and a report becomes text. Measuring is `trilith.measure.compare`'s.
Rule 2: the result goes to standard output, progress to standard error.
Rule 3: exit status 0: there is a result, "no difference" and "too noisy" included; 1: no round was measured; 130:
        interrupted. Options that are wrong and targets that do not answer raise a `SetupError`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from trilith.cli.bench_options import OR_DASH, existing, parse_duration_s, parse_headers, positive_s
from trilith.cli.named_values import named_targets, value_of, values_of
from trilith.cli.printing import report_console, store, store_file
from trilith.errors import InvalidConfig, SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilith.measure import SubjectSpec
    from trilith.measure.compare import ComparePlan, CompareProgress, CompareReport

_ROUNDS: Final = 20
_ROUNDS_WITH_UNTIL: Final = 400


def compare(
    *targets: str,
    data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),
    concurrency: int = 8,
    rate: float | None = None,
    rounds: int | None = None,
    round_duration: str | None = None,
    warmup: str = "200ms",
    until: str | None = None,
    method: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    content_type: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    proto: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),
    model: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    shape: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    input_data: Annotated[tuple[str | Path, ...], Parameter(negative="")] = (),
    timeout: str = "30s",
    pid: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    json: Annotated[Path | None, OR_DASH] = None,
    html: Path | None = None,
) -> int:
    """Compare endpoints under the same load: by how much is one better, and how sure is that?

    Any of HTTP, gRPC and models, as bench takes them; they need not be of one kind. The targets take turns in short
    rounds, so that what slows the machine down slows all of them. The first is the baseline. Ctrl-C shows what was
    measured so far.

    Parameters
    ----------
    targets
        Two endpoints or more. NAME=URL names one; else they are A, B, C.
    data
        A file to send, or JSON text, as for bench. NAME=FILE is for one target alone; so it is with all options
        of what is sent.
    concurrency
        Requests in flight, of one target at a time.
    rate
        Instead of that: requests a second, which come at random and at the same instants for all; then latencies are
        compared.
    rounds
        How many rounds; 20, or at most 400 with --until.
    round_duration
        Time measured of each target in each round: 500ms, 5s. By default chosen by how long answers take.
    warmup
        Time of load before that, each time.
    until
        Go on until the interval of the ratio (of throughput, or with --rate of latency) is at most that wide: 15%.
    method
        HTTP method; POST with data, GET without.
    header
        A header to send, NAME:VALUE.
    content_type
        Content type of the data; by default from the file's extension, JSON for text.
    proto
        Of a gRPC target without reflection: its .proto, or a descriptor set.
    model
        A model of the server that the target's URL names; its inputs are made.
    shape
        With --model: NAME:1,3,224,224 of an input.
    input_data
        With --model: random, zero, or a file or folder, as for bench.
    timeout
        Time after which a request without an answer counts as failed.
    pid
        NAME=PID: process id of a target's server on this machine: its CPU time a request is compared too.
    json
        Write the whole comparison to this file as JSON; - is standard output, instead of the tables.
    html
        Write it to this file as one page, with the ratios and their intervals as a picture.
    """
    from trilith.measure import SubjectSpec, parse_shapes
    from trilith.measure.compare import ComparePlan, Contestant

    named = named_targets(targets)
    names = [name for name, _ in named]
    _check_pids(names, pid)
    plan = ComparePlan(
        contestants=tuple(
            Contestant(name=name, url=url, server_pid=_pid(value_of("--pid", name, names, pid))) for name, url in named
        ),
        concurrency=_concurrency(concurrency),
        rate_per_s=rate,
        rounds=rounds if rounds is not None else _ROUNDS if until is None else _ROUNDS_WITH_UNTIL,
        until_width=None if until is None else parse_share("--until", until),
        round_s=None if round_duration is None else parse_duration_s("--round-duration", round_duration),
        warmup_s=parse_duration_s("--warmup", warmup),
        timeout_s=positive_s("--timeout", timeout),
    )
    specs = tuple(
        SubjectSpec(
            url=url,
            name=name,
            data=values_of(name, names, tuple(map(str, data))),
            method=value_of("--method", name, names, method),
            content_type=value_of("--content-type", name, names, content_type) or "",
            headers=parse_headers(values_of(name, names, header)),
            proto=_path(value_of("--proto", name, names, tuple(map(str, proto)))),
            model=value_of("--model", name, names, model) or "",
            shapes=parse_shapes(values_of(name, names, shape)),
            input_data=value_of("--input-data", name, names, tuple(map(str, input_data))) or "random",
            timeout_s=plan.timeout_s,
        )
        for name, url in named
    )
    return _run(plan, specs, json, html)


def parse_share(option: str, text: str) -> float:
    """Reads `15%` or `0.15`; from 1 on a number needs its percent sign: `1` may be all or a hundredth.

    Raises:
        InvalidConfig: it is none of them.
    """
    number = text.strip().removesuffix("%").strip()
    percent = text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < (10 if percent else 1):
        raise InvalidConfig(
            f"{option} {text!r}: expected a share like 15% or 0.15; from 1 on it needs its percent sign"
        )
    return value


def _check_pids(names: Sequence[str], pids: Sequence[str]) -> None:
    for value in pids:
        name, _, number = value.partition("=")
        if name not in names or not number.isdecimal():
            raise InvalidConfig(f"--pid {value}: expected NAME=PID with the name of a target ({', '.join(names)})")


def _concurrency(number: int) -> int:
    if not 1 <= number <= 10_000:
        raise InvalidConfig(f"--concurrency {number}: expected a whole number from 1 to 10000")
    return number


def _pid(text: str | None) -> int | None:
    return None if text is None else existing(int(text))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _run(plan: ComparePlan, specs: Sequence[SubjectSpec], json: Path | None, html: Path | None) -> int:
    import uvloop

    from trilith.measure.compare import Comparing

    progress = _ProgressLine() if sys.stderr.isatty() else None
    comparing = Comparing(plan, specs, progress)
    try:
        comparing.look()
        uvloop.run(comparing.run())
    except ProcessLookupError as error:
        raise SetupError(f"--pid: {error}; the process ended while it was measured") from error
    except KeyboardInterrupt:
        pass  # the report says so: what was measured until then stays
    finally:
        if progress is not None:
            progress.clear()
    report = comparing.report()
    _write(report, json, html)
    if report.interrupted:
        return 130
    return 0 if report.rounds else 1


class _ProgressLine:
    """Whose turn it is and what is known so far, on standard error; drawn by hand, as that of bench."""

    _WIDTH: Final = 20

    def __init__(self) -> None:
        self._drawn = (-1, "", -1.0)

    def __call__(self, progress: CompareProgress) -> None:
        number, name, at_s = self._drawn
        if (number, name) == (progress.round_number, progress.name) and 0 <= progress.elapsed_s - at_s < 0.2:
            return
        self._drawn = (progress.round_number, progress.name, progress.elapsed_s)
        done = min(self._WIDTH, int(self._WIDTH * progress.elapsed_s / progress.length_s))
        bar = "█" * done + "·" * (self._WIDTH - done)
        place = f"round {progress.round_number} of {progress.rounds}" if progress.round_number else "warming up"
        ratio = progress.ratio
        known = "" if ratio is None else f"{ratio.ratio:.2f} x ({ratio.low:.2f} to {ratio.high:.2f})"
        sys.stderr.write(f"\r\x1b[2K{place}  {progress.name} {bar} {known}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away."""
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def _write(report: CompareReport, json: Path | None, html: Path | None) -> None:
    from trilith.measure.compare import comparison_to_html, comparison_to_json, render_comparison

    if html is not None:
        store_file(html, comparison_to_html(report).encode())
    if json is not None and store(json, comparison_to_json(report)):
        return
    report_console().print(render_comparison(report))
