"""The OCR example against the server that one would write by hand, and against other systems, by the same load.

    python benchmarks/ocr_compare.py                    # all four comparisons: some 80 minutes
    python benchmarks/ocr_compare.py --only reference --rounds 8 --round-duration 10
    python benchmarks/ocr_compare.py --only steps,without --markdown story.md --json story.json

    reference   gRPC by hand in both modes, Trilith, Trilith with OpenVINO
    steps       from the one to the other, one change at a time
    without     the last of these, with one thing taken away
    peers       the same pipeline on BentoML, Ray Serve, and PyTriton over instances x dynamic batching

Every target reads some pages whose text is known, which gives its error rate. Then all are loaded by `trilith.measure`,
in turn, round by round (see docs/compare.md). Servers that are not measured run on, idle. The result is Markdown.
A target that does not start is told of, and the others are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

# The examples are folders of modules, not packages.
sys.path.extend(str(Path(__file__).parents[1] / folder) for folder in ("", "examples/ocr", "examples/ocr_baseline"))

import uvloop
from accuracy import edit_distance
from benchmarks.ocr_table import Known, conditions, sentences, table
from benchmarks.ocr_targets import Place, Target, TargetFailed, groups
from pages import STYLES, Page, invoice

from trilith.errors import SetupError
from trilith.measure.compare import (
    ComparePlan,
    CompareProgress,
    CompareReport,
    Comparing,
    Contestant,
    comparison_to_json,
)

_STYLES = ("clean", "small", "serif", "turned 3")
_WITH_STEPS = ("steps",)
_TIMEOUT_S = 120.0
_TITLES = {
    "reference": "Trilith beside gRPC by hand",
    "steps": "One change at a time",
    "without": "What each part is worth",
    "peers": "The same pipeline on other systems",
}


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then too
    pages = {name: invoice(replace(STYLES[name], rows=options.rows)) for name in options.pages}
    known = groups()
    texts, exports, failed = [], {}, False
    for name in options.only:
        targets = [target for target in known[name] if not options.targets or target.name in options.targets]
        text, report, complete = compare(name, targets, pages, options)
        failed = failed or not complete
        print(f"\n{text}\n", flush=True)
        texts.append(text)
        if report is not None:
            exports[name] = json.loads(comparison_to_json(report))
            if report.interrupted:
                break
    if options.markdown is not None:
        options.markdown.write_text("\n\n".join(texts) + "\n", "utf-8")
    if options.json is not None:
        options.json.write_text(json.dumps(exports, indent=2) + "\n", "utf-8")
    return 1 if failed else 0


def compare(
    name: str, targets: Sequence[Target], pages: dict[str, Page], options: argparse.Namespace
) -> tuple[str, CompareReport | None, bool]:
    """One comparison: its Markdown, its report (None without two targets that run), whether all targets were in it."""
    lines, failures = [f"### {_TITLES[name]}", ""], []
    with contextlib.ExitStack() as running, tempfile.TemporaryDirectory() as folder:
        places: list[tuple[Target, Place, Known]] = []
        for target in targets:
            began = time.monotonic()
            try:
                place = _started(target, running)
                known = Known(about=target.about, error_rate=error_rate(place, pages))
            except (SetupError, TargetFailed, OSError) as error:
                failures.append(f"{target.name} is not in it: {_short(str(error))}")
                _say(failures[-1])
                continue
            places.append((target, place, known))
            _say(f"{target.name}: ready, error rate {known.error_rate:.4f}, after {time.monotonic() - began:.0f} s")
        report = None
        if len(places) > 1:
            try:
                report = _measure(places, pages, Path(folder), options)
            except SetupError as error:
                failures.append(f"Nothing was measured: {error.message}")
        if report is not None:
            if report.rounds:
                lines += [table(report, [known for _, _, known in places], with_steps=name in _WITH_STEPS), ""]
            lines += [conditions(report, list(pages)), "", *(f"* {text}" for text in sentences(report))]
    return "\n".join([*lines, *(f"* {text}" for text in failures)]), report, not failures and report is not None


def _started(target: Target, running: contextlib.ExitStack) -> Place:
    """Starts it. Some systems give up when they start on a busy machine, so one that failed gets another try."""
    try:
        return running.enter_context(target.start())
    except TargetFailed as error:
        _say(f"{target.name} is started once more: {_short(str(error))}")
        return running.enter_context(target.start())


def _short(text: str) -> str:
    """The first line and the end of a message: a server's last words say the most."""
    first, _, rest = text.strip().partition("\n")
    end = " ".join(rest.split())[-400:]
    return f"{first[:300]} ... {end}" if end else first[:300]


def error_rate(place: Place, pages: dict[str, Page]) -> float:
    """Character errors a character, over all pages."""
    wrong = characters = 0
    for page in pages.values():
        truth, found = (" ".join(" ".join(rows).split()) for rows in (page.lines, place.read(page.png())))
        wrong += edit_distance(found, truth)
        characters += len(truth)
    return wrong / characters


def _measure(
    places: Sequence[tuple[Target, Place, Known]], pages: dict[str, Page], folder: Path, options: argparse.Namespace
) -> CompareReport:
    pictures = []
    for name, page in pages.items():
        pictures.append(folder / f"{name.replace(' ', '-')}.png")
        pictures[-1].write_bytes(page.png())
    plan = ComparePlan(
        contestants=tuple(
            Contestant(name=target.name, url=place.url, server_pid=place.pid) for target, place, _ in places
        ),
        concurrency=options.concurrency,
        rounds=options.rounds,
        round_s=options.round_duration,
        warmup_s=options.warmup,
        timeout_s=_TIMEOUT_S,
    )
    specs = []
    for number, (target, place, _) in enumerate(places):
        own = folder / str(number)  # what is sent differs by protocol
        own.mkdir()
        specs.append(replace(place.send(pictures, own), url=place.url, name=target.name, timeout_s=_TIMEOUT_S))
    comparing = Comparing(plan, specs, _Progress())
    with contextlib.suppress(KeyboardInterrupt):  # the report says so: what was measured until then stays
        comparing.look()
        uvloop.run(comparing.run())
    return comparing.report()


class _Progress:
    """A line on standard error for each target of each round."""

    def __init__(self) -> None:
        self._told = (-1, "")

    def __call__(self, progress: CompareProgress) -> None:
        if self._told != (progress.round_number, progress.name):
            self._told = (progress.round_number, progress.name)
            _say(f"round {progress.round_number} of {progress.rounds}: {progress.name}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_words(_TITLES), default=list(_TITLES), help=f"of {','.join(_TITLES)}")
    parser.add_argument("--targets", nargs="+", default=[], help="of a comparison those with these names alone")
    parser.add_argument("--concurrency", type=int, default=4, help="pages in flight")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--round-duration", type=float, default=10.0, help="seconds of each target in each round")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds before that")
    parser.add_argument("--pages", type=_words(STYLES), default=list(_STYLES), help=f"of {','.join(STYLES)}")
    parser.add_argument("--rows", type=int, default=18, help="rows of the table on each page")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file too")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    return parser.parse_args()


def _words(allowed: Sequence[str]):  # noqa: ANN202 - a type for argparse
    def parse(text: str) -> list[str]:
        words = text.split(",")
        unknown = [word for word in words if word not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(allowed)}")
        return words

    return parse


if __name__ == "__main__":
    sys.exit(main())
