"""Every number of the project's goals, measured and compared with its bound, in one table.

    python -m benchmarks [--only echo,oip,import] [--quick] [--json FILE]

Everything takes about 30 minutes (and the peers' environments, made once, some more); README.md says how long each
group takes. `--quick` shows in five minutes that it all works; do not quote its figures. A peer that fails is told, and
the others go on. Ends with status 1 when a goal is missed or could not be measured.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

from benchmarks.goals import GROUPS, as_report, as_table, judge
from benchmarks.measurements import MEASUREMENTS, QUICK, Effort, MeasurementFailed
from benchmarks.ocr import ServerFailed
from benchmarks.peers.rounds import EXPECTED
from rich.console import Console

from trilith.measure import read_conditions

_EXPECTED = (MeasurementFailed, ServerFailed, *EXPECTED)


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended then too
    conditions = read_conditions(("trilith", "uvloop", "httptools", "msgspec", "onnxruntime", "grpcio"))
    measured: dict[str, list[float]] = {}
    failures: dict[str, str] = {}
    for group in options.only:
        print(f"-- {group}", file=sys.stderr, flush=True)
        started_s = time.monotonic()
        try:
            found = MEASUREMENTS[group](QUICK if options.quick else Effort())
        except _EXPECTED as error:
            failures[group] = f"{type(error).__name__}: {error}"
            print(f"{group}: {failures[group]}", file=sys.stderr, flush=True)
            continue
        measured.update({key: list(samples) for key, samples in found.samples.items()})
        failures.update({f"{group}: {name}": why for name, why in found.failures.items()})
        print(f"-- {group}: {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)
    verdicts = judge(options.only, measured)
    title = "Goals, measured quickly: it works, more is not said" if options.quick else "Goals"
    Console(highlight=False, width=110).print(as_table(verdicts, title))
    for key, value in conditions.items():
        print(f"{key}: {value}")
    for name, why in failures.items():
        print(f"FAILED {name}: {(why.splitlines() or [''])[0]}")
    if options.json is not None:
        report = as_report(verdicts, conditions, failures, quick=options.quick)
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 0 if all(verdict.outcome == "met" for verdict in verdicts) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", type=_groups, default=list(GROUPS), metavar="GROUPS", help=f"some of {','.join(GROUPS)}"
    )
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works")
    parser.add_argument("--json", type=Path, help="write everything that was measured to this file")
    return parser.parse_args()


def _groups(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(GROUPS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
