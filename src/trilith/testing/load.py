"""Performance in tests of your own, as a ratio to a baseline: two endpoints, the same load, in turn.

    with served("before.py:Reader") as before, served("app.py:Reader") as now:
        found = compare_load(before.url("/read"), now.url("/read"), data={"page": 1})
    found.require_at_least(0.9)

Rule 1: no test of a duration. Machines differ and are busy; the ratio of two things that ran in turn holds.
Rule 2: a requirement fails when the interval says that it is missed, not when it cannot say; `sure=True` turns that
        round. Where the interval is too wide to say anything, the test is skipped with the figure of the noise.
"""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from trilith.errors import InvalidConfig
from trilith.measure import RatioEstimate, SubjectSpec
from trilith.measure.compare import ComparePlan, CompareReport, Comparing, Comparison, Contestant
from trilith.measure.copies import CopyPlan, RunningCopy, running_copy

WIDEST: Final = 0.5
"""An interval wider than this share, with the requirement inside it, says nothing."""


class TooNoisy(unittest.SkipTest):
    """The machine was too noisy to say anything; pytest and unittest count the test as skipped."""


@contextmanager
def served(
    target: str, *, settings: Mapping[str, Any] | None = None, options: Sequence[str] = (), folder: Path | None = None
) -> Iterator[RunningCopy]:
    """Serves a target on free ports while inside, in processes of its own.

    Args:
        target: as `trilith serve` takes it: `app.py:Ocr`, `module:Name`, a folder of models.
        settings: values by path, as `trilith serve --set` takes them: `{"Ocr.replicas": 2}`.
        options: further words for `trilith serve`.
        folder: where it is started; the current folder by default.

    Raises:
        SetupError: it ended, or was not ready in time; the message has what it wrote.
    """
    with running_copy(
        CopyPlan(target=target, settings=settings or {}, options=tuple(options), folder=folder)
    ) as running:
        yield running


@dataclass(frozen=True, slots=True)
class LoadComparison:
    """What a comparison found: the second endpoint as a multiple of the first.

    Attributes:
        report: everything.
    """

    report: CompareReport

    def __str__(self) -> str:
        return " ".join([self._comparison.sentence, *self.report.notes])

    @property
    def _comparison(self) -> Comparison:
        return self.report.comparisons[0]

    def ratio(self, figure: str = "throughput") -> RatioEstimate:
        """One figure: `throughput`, `mean`, `p50`, `p90`, `p99`, `cpu`.

        Raises:
            InvalidConfig: it was not measured: too few answers for a percentile, or no process for `cpu`.
        """
        ratios = self._comparison.ratios
        if figure not in ratios:
            raise InvalidConfig(
                f"there is no {figure!r} in this comparison, only {', '.join(ratios)}: a p99 takes 100 answers a round,"
                " and cpu the ids of both processes"
            )
        return ratios[figure]

    def require_at_least(self, ratio: float, figure: str = "throughput", *, sure: bool = False) -> None:
        """Fails when the figure is less than `ratio` times the baseline's.

        Args:
            ratio: 0.9 for "not more than 10 % worse".
            figure: as in `ratio`.
            sure: fail also when the interval does not say that it is at least that much.

        Raises:
            AssertionError: it is less; the message has the interval.
            TooNoisy: nothing can be said.
        """
        found = self.ratio(figure)
        self._require(found.low >= ratio, found.high < ratio, found, figure, f"at least {ratio:g}", ratio, sure)

    def require_at_most(self, ratio: float, figure: str = "p99", *, sure: bool = False) -> None:
        """Fails when the figure is more than `ratio` times the baseline's; in other respects as `require_at_least`."""
        found = self.ratio(figure)
        self._require(found.high <= ratio, found.low > ratio, found, figure, f"at most {ratio:g}", ratio, sure)

    def _require(
        self, holds: bool, missed: bool, found: RatioEstimate, figure: str, wanted: str, ratio: float, sure: bool
    ) -> None:
        text = (
            f"{figure}: expected {wanted} x the baseline's, got {found.ratio:.3g} x"
            f" ({found.confidence:.0%} interval {found.low:.3g} to {found.high:.3g}, {found.rounds} rounds). {self}"
        )
        if missed:
            raise AssertionError(text)
        if holds:
            return
        if found.width > WIDEST:
            raise TooNoisy(f"too noisy: the ratio of one round is off by {found.noise:.0%}. {text}")
        if sure:
            raise AssertionError(f"not sure enough: {text}")


def compare_load(
    baseline: str,
    candidate: str,
    *,
    data: Any = None,
    content_type: str = "application/json",
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    proto: Path | None = None,
    pids: tuple[int, int] | None = None,
    concurrency: int = 8,
    rounds: int = 20,
    round_s: float | None = 0.5,
    until_width: float | None = None,
) -> LoadComparison:
    """Puts the same load on two endpoints, in turn. Takes about twice `rounds` times `round_s`, and a fifth more.

    Args:
        baseline: URL of what is compared with: HTTP, or `grpc://HOST:PORT/package.Service/Method`.
        candidate: URL of what the requirement is about.
        data: what is sent: bytes, a `Path` to a file, or any value for JSON; None for requests without a body.
        content_type: of bytes.
        method: POST with data, GET without.
        headers: of every request.
        proto: of gRPC endpoints without reflection.
        pids: of both servers, for CPU time a request.
        concurrency: requests in flight.
        rounds: how many.
        round_s: seconds of each endpoint in a round; None to choose by how long answers take.
        until_width: ends earlier when the interval of the throughput is at most that wide (0.15: 15 %).

    Raises:
        SetupError: an endpoint is not there, or refuses the request.
        TooNoisy: there was no round in which both answered.
    """
    named = tuple(zip(("baseline", "candidate"), (baseline, candidate), pids or (None, None), strict=True))
    plan = ComparePlan(
        contestants=tuple(Contestant(name=name, url=url, server_pid=pid) for name, url, pid in named),
        concurrency=concurrency,
        rounds=rounds,
        round_s=round_s,
        until_width=until_width,
        warmup_s=0.1,
    )
    with tempfile.TemporaryDirectory() as folder:
        sent, kind = _sent(data, content_type, Path(folder))
        specs = tuple(
            SubjectSpec(
                url=url,
                name=name,
                data=sent,
                content_type=kind,
                method=method or (None if sent else "GET"),
                headers=tuple((headers or {}).items()),
                proto=proto,
            )
            for name, url, _ in named
        )
        found = LoadComparison(_compared(plan, specs))
    if not found.report.comparisons or not found.report.comparisons[0].ratios:
        raise TooNoisy(f"there was no round in which both answered. {' '.join(found.report.notes)}")
    return found


def _compared(plan: ComparePlan, specs: Sequence[SubjectSpec]) -> CompareReport:
    import uvloop

    comparing = Comparing(plan, specs)
    comparing.look()
    uvloop.run(comparing.run())
    return comparing.report()


def _sent(data: Any, content_type: str, folder: Path) -> tuple[tuple[str, ...], str]:
    """What is sent, as a file, and its content type ("" for what its name says)."""
    match data:
        case None:
            return (), ""
        case Path():
            return (str(data.absolute()),), ""
        case bytes():
            content = data
        case _:
            content, content_type = msgspec.json.encode(data), "application/json"
    file = folder / "body"
    file.write_bytes(content)
    return (str(file),), content_type
