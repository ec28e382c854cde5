"""The OCR pipeline without any server: what serving is measured against.

    python benchmarks/ocr_bare.py [--callers 2] [--seconds 10] [--style clean] [--threads 1]

N threads read the same page over and over through one shared session a model, image decoding and all pre- and
postprocessing included. One JSON object on standard output:

    {"pages_per_s": ..., "cpu_ms_per_page": ..., "latency_ms": {"p50": ..., "max": ...}, "stages_ms": {...}, ...}

Run it interleaved with the served pipeline (A B A B), on the same cores: single runs on a shared machine mean little.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "ocr"))

import cv2
from accuracy import character_error_rate
from lines import row_texts
from pages import STYLES, invoice
from pipeline import OcrPipeline, StageTimes, tuned_options


def run(pipeline: OcrPipeline, encoded: bytes, *, callers: int, seconds: float) -> dict[str, object]:
    """Reads the page from `callers` threads for about `seconds`; every page that was begun is finished and counted."""
    latencies: list[list[float]] = [[] for _ in range(callers)]
    times = [StageTimes() for _ in range(callers)]
    gate = threading.Barrier(callers + 1)

    def caller(number: int) -> None:
        gate.wait()
        while time.perf_counter() < deadline:
            started = time.perf_counter()
            pipeline.read_file(encoded, times[number])
            latencies[number].append(time.perf_counter() - started)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    started, cpu_started = time.perf_counter(), time.process_time()
    deadline = started + seconds
    gate.wait()
    for thread in threads:
        thread.join()
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    all_latencies = sorted(latency for one in latencies for latency in one)
    pages = len(all_latencies)
    stages: dict[str, float] = {}
    for one in times:
        for stage, spent in one.seconds.items():
            stages[stage] = stages.get(stage, 0.0) + spent
    return {
        "pages": pages,
        "pages_per_s": round(pages / elapsed, 3),
        "cpu_ms_per_page": round(cpu / pages * 1e3, 1),
        "latency_ms": {
            "p50": round(statistics.median(all_latencies) * 1e3, 1),
            "max": round(all_latencies[-1] * 1e3, 1),
        },
        "stages_ms": {stage: round(spent / pages * 1e3, 2) for stage, spent in stages.items()},
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--callers", type=int, default=2, help="threads that read pages")
    arguments.add_argument("--threads", type=int, default=1, help="threads of each session")
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--style", choices=STYLES, default="clean", help="the page that is read")
    chosen = arguments.parse_args()

    cv2.setNumThreads(1)
    page = invoice(STYLES[chosen.style])
    encoded = page.png()
    pipeline = OcrPipeline.open(functools.partial(tuned_options, chosen.threads))
    read = pipeline.read_file(encoded)  # warm: sessions plan their memory at the first run of each shape
    error_rate = character_error_rate(row_texts(read), page.lines)
    measured = run(pipeline, encoded, callers=chosen.callers, seconds=chosen.seconds)
    about = {"style": chosen.style, "callers": chosen.callers, "session_threads": chosen.threads, "boxes": len(read)}
    print(json.dumps({"bench": "ocr_bare", **about, "character_error_rate": round(error_rate, 4), **measured}))


if __name__ == "__main__":
    main()
