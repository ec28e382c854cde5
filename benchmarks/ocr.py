"""The served OCR pipeline beside the bare loop, in interleaved rounds: what does serving cost?

    python benchmarks/ocr.py [--callers 2] [--seconds 15] [--rounds 3] [--app examples/ocr/app.py:Ocr] [--json FILE]

Both read the same page with the same models, session options and threads; the bare loop is `ocr_bare.py`. A round is
one run of each, one after the other, so that a machine whose speed drifts slows both. Quote the ratios, not the
absolutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# The example is a folder of modules, not a package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "ocr"))

from pages import STYLES, invoice
from served import ServerFailed, post, serve

from trilith.measure import cpu_seconds

ROOT = Path(__file__).resolve().parent.parent
APP = f"{ROOT}/examples/ocr/app.py:Ocr"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Pages a second, and CPU milliseconds a page of the whole process tree."""

    pages_per_s: float
    cpu_ms_per_page: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One round: the bare loop, then the served pipeline."""

    bare: Outcome
    served: Outcome

    @property
    def pages_ratio(self) -> float:
        """Served pages a second for each bare one."""
        return self.served.pages_per_s / self.bare.pages_per_s

    @property
    def cpu_ratio(self) -> float:
        """CPU of a served page for that of a bare one."""
        return self.served.cpu_ms_per_page / self.bare.cpu_ms_per_page


def measure_pair(app: str, encoded: bytes, callers: int, seconds: float) -> Pair:
    """Both, one after the other.

    Raises:
        ServerFailed: the served pipeline does not answer as it should.
    """
    return Pair(run_bare(callers, seconds), run_served(app, encoded, callers, seconds))


def measure_pairs(app: str, *, rounds: int, seconds: float, callers: int = 2, style: str = "clean") -> list[Pair]:
    """Interleaved rounds of one application; prints a line for each."""
    encoded = invoice(STYLES[style]).png()
    pairs: list[Pair] = []
    for number in range(1, rounds + 1):
        pairs.append(measure_pair(app, encoded, callers, seconds))
        print(line(number, app, pairs[-1]), flush=True)
    return pairs


def line(number: int, app: str, pair: Pair) -> str:
    """A round, for people."""
    bare, served = pair.bare, pair.served
    return (
        f"round {number} {Path(app).parent.name}: bare {bare.pages_per_s:.2f} pages/s"
        f" {bare.cpu_ms_per_page:,.0f} ms CPU; served {served.pages_per_s:.2f} pages/s"
        f" {served.cpu_ms_per_page:,.0f} ms CPU; served/bare {pair.pages_ratio:.3f} pages/s,"
        f" {pair.cpu_ratio:.3f} CPU; load {os.getloadavg()[0]:.1f}"
    )


def run_bare(callers: int, seconds: float) -> Outcome:
    command = [sys.executable, str(ROOT / "benchmarks" / "ocr_bare.py"), "--callers", str(callers)]
    done = subprocess.run([*command, "--seconds", str(seconds)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return Outcome(found["pages_per_s"], found["cpu_ms_per_page"])


def run_served(app: str, encoded: bytes, callers: int, seconds: float) -> Outcome:
    with serve(app) as server:
        for _ in range(2):  # sessions plan their memory at the first run of each shape
            read(server.port, encoded)
        pages = [0] * callers
        gate = threading.Barrier(callers + 1)

        def caller(number: int) -> None:
            gate.wait()
            while time.perf_counter() < deadline:
                read(server.port, encoded)
                pages[number] += 1

        threads = [threading.Thread(target=caller, args=(number,)) for number in range(callers)]
        for thread in threads:
            thread.start()
        cpu, started = cpu_seconds(server.pid), time.perf_counter()
        deadline = started + seconds
        gate.wait()
        for thread in threads:
            thread.join()
        elapsed, cpu = time.perf_counter() - started, cpu_seconds(server.pid) - cpu
    return Outcome(sum(pages) / elapsed, cpu / sum(pages) * 1e3)


def read(port: int, encoded: bytes) -> None:
    answer = post(port, "/read", encoded, {"content-type": "image/png"})
    if answer.status != 200:
        raise ServerFailed(f"the server answered {answer.status}: {answer.body.decode()}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--callers", type=int, default=2, help="clients, or threads of the bare loop")
    arguments.add_argument("--seconds", type=float, default=15.0, help="of each run")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--style", choices=STYLES, default="clean", help="the page that is read")
    arguments.add_argument("--app", nargs="+", default=[APP], help="what is served")
    arguments.add_argument("--json", type=Path, help="where to write the figures")
    chosen = arguments.parse_args()

    encoded = invoice(STYLES[chosen.style]).png()
    pairs: dict[str, list[Pair]] = {app: [] for app in chosen.app}
    for number in range(1, chosen.rounds + 1):
        for app in chosen.app:
            pairs[app].append(measure_pair(app, encoded, chosen.callers, chosen.seconds))
            print(line(number, app, pairs[app][-1]), flush=True)
    for app, found in pairs.items():
        pages = statistics.median(pair.pages_ratio for pair in found)
        cpu = statistics.median(pair.cpu_ratio for pair in found)
        print(
            f"{Path(app).parent.name}: served/bare, median of {len(found)}: {pages:.3f} pages/s, {cpu:.3f} CPU a page"
        )
    if chosen.json is not None:
        ratios = {app: [(pair.pages_ratio, pair.cpu_ratio) for pair in found] for app, found in pairs.items()}
        chosen.json.write_text(json.dumps(ratios, indent=2))


if __name__ == "__main__":
    main()
