"""What does `PIL.Image` in and out cost, beside decoding and encoding the same JPEG in a bare loop?

    python benchmarks/image_io.py [--megapixels 12] [--pictures 12] [--rounds 5] [--json FILE]

A round is the bare loop, then the served one, one picture at a time. Both decode and encode with the same Pillow, in
processes of their own, and both are told by CPU time a picture: of the bare process, and of the server's whole tree.
Time on the clock is shown beside it. Quote the ratio, not the absolutes. The goal: at most 1.10.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# The example's server is a module beside it, not a package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "ocr"))

import numpy as np
from PIL import Image
from served import ServerFailed, post, serve

from trilith.measure import cpu_seconds

APP = f"{Path(__file__).resolve().parent}/apps/picture.py:picture"
_BARE = """
import io, sys, time
from PIL import Image
raw, count = sys.stdin.buffer.read(), int(sys.argv[1])
for number in range(count + 1):
    if number == 1:
        cpu, clock = time.process_time(), time.perf_counter()
    image = Image.open(io.BytesIO(raw))
    image.load()
    stream = io.BytesIO()
    image.save(stream, "JPEG")
print((time.process_time() - cpu) / count, (time.perf_counter() - clock) / count)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds a picture: of CPU, and on the clock."""

    cpu_s: float
    clock_s: float


def photo(megapixels: float) -> bytes:
    """A JPEG with the detail of a photo: smooth areas, edges and some noise."""
    width, height = int((megapixels * 1e6 * 4 / 3) ** 0.5), int((megapixels * 1e6 * 3 / 4) ** 0.5)
    random = np.random.default_rng(1)
    coarse = Image.fromarray(random.integers(0, 256, (height // 64, width // 64, 3), np.uint8))
    whole = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    noisy = whole + random.integers(-4, 5, whole.shape, np.int16)
    stream = io.BytesIO()
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def bare(raw: bytes, pictures: int) -> Cost:
    """Decoding and encoding, in a process of its own; the first picture does not count."""
    done = subprocess.run([sys.executable, "-c", _BARE, str(pictures)], input=raw, capture_output=True, check=True)
    cpu_s, clock_s = map(float, done.stdout.split())
    return Cost(cpu_s, clock_s)


def served(port: int, pid: int, raw: bytes, pictures: int) -> Cost:
    """The same by the server.

    Raises:
        ServerFailed: it answered something else than a picture.
    """
    _picture(port, raw)
    cpu_s, clock_s = cpu_seconds(pid), time.perf_counter()
    for _ in range(pictures):
        _picture(port, raw)
    return Cost((cpu_seconds(pid) - cpu_s) / pictures, (time.perf_counter() - clock_s) / pictures)


def _picture(port: int, raw: bytes) -> None:
    answer = post(port, "/picture", raw, {"content-type": "image/jpeg"})
    if answer.status != 200 or not answer.body.startswith(b"\xff\xd8\xff"):
        raise ServerFailed(f"the server answered {answer.status}: {answer.body[:200]!r}")


def measure(*, megapixels: float, pictures: int, rounds: int) -> list[tuple[Cost, Cost]]:
    """Bare and served, of each round. Each is told on standard output.

    Raises:
        ServerFailed: the server did not start or gave a wrong answer.
    """
    raw = photo(megapixels)
    print(f"a JPEG of {megapixels:g} megapixels, {len(raw) / 1e6:.1f} MB")
    pairs: list[tuple[Cost, Cost]] = []
    with serve(APP) as server:
        for number in range(1, rounds + 1):
            pair = (bare(raw, pictures), served(server.port, server.pid, raw, pictures))
            pairs.append(pair)
            print(
                f"round {number}: bare {pair[0].cpu_s * 1e3:.0f} ms CPU, {pair[0].clock_s * 1e3:.0f} ms; served"
                f" {pair[1].cpu_s * 1e3:.0f} ms CPU, {pair[1].clock_s * 1e3:.0f} ms; served/bare"
                f" {pair[1].cpu_s / pair[0].cpu_s:.3f} CPU, {pair[1].clock_s / pair[0].clock_s:.3f} clock;"
                f" load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megapixels", type=float, default=12.0)
    parser.add_argument("--pictures", type=int, default=12, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    chosen = parser.parse_args()
    pairs = measure(megapixels=chosen.megapixels, pictures=chosen.pictures, rounds=chosen.rounds)
    cpu = statistics.median(served.cpu_s / bare.cpu_s for bare, served in pairs)
    clock = statistics.median(served.clock_s / bare.clock_s for bare, served in pairs)
    print(f"served/bare, median of {len(pairs)}: {cpu:.3f} CPU a picture, {clock:.3f} on the clock")
    if chosen.json is not None:
        chosen.json.write_text(
            json.dumps({"cpu_ratio": cpu, "clock_ratio": clock, "pictures": chosen.pictures}, indent=2)
        )


if __name__ == "__main__":
    main()
