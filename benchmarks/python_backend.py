"""A Python model in the runtime of this process: a 4 MB tensor there and back, and small requests.

    python benchmarks/python_backend.py [--rounds 300] [--seconds 1.0] [--only large,small]

Large: one request at a time through an identity `model.py`; the best and the median round beside those of one memcpy of
the same size, and how many memcpys the best one is. Small: a closed loop of four floats; requests a second and CPU time
a request in this process and in the model's. The machine is shared in most places: compare ratios and the best rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import uvloop

from trilith.core.collector import settle_collector
from trilith.runtime import InferRequest, Runtime

MODEL = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if array.shape[1] == 1:
                array = np.array([[os.getpid()]], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("y", array)]))
        return responses
"""
CONFIG = """
backend: "python"
max_batch_size: 32
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
dynamic_batching { }
"""
LARGE_BYTES = 4 << 20
ALLOWED_S = 0.0003


def write_model(folder: Path) -> None:
    """A repository with the identity model `echo`."""
    (folder / "echo" / "1").mkdir(parents=True)
    (folder / "echo" / "1" / "model.py").write_text(MODEL)
    (folder / "echo" / "config.pbtxt").write_text(CONFIG)


async def large(runtime: Runtime, rounds: int) -> str:
    """One tensor at a time, each round followed by one memcpy."""
    array = np.random.default_rng(0).random((1, LARGE_BYTES // 4), np.float32)
    target = np.empty_like(array)
    trips: list[float] = []
    copies: list[float] = []
    for _ in range(rounds):
        began_at = time.perf_counter()
        answer = await runtime.infer(InferRequest(model="echo", inputs={"x": array}))
        trips.append(time.perf_counter() - began_at)
        del answer
        began_at = time.perf_counter()
        np.copyto(target, array)
        copies.append(time.perf_counter() - began_at)
    trip, copy = min(trips), min(copies)
    bound = 2 * copy + ALLOWED_S
    return (
        f"4 MB there and back: best {trip * 1e3:.3f} ms, median {statistics.median(trips) * 1e3:.3f} ms; memcpy best "
        f"{copy * 1e3:.3f} ms, median {statistics.median(copies) * 1e3:.3f} ms; {trip / copy:.2f} memcpys; "
        f"{trip / bound:.2f} of two memcpys and {ALLOWED_S * 1e3:g} ms"
    )


async def small(runtime: Runtime, in_flight: int, seconds: float) -> str:
    """A closed loop of small requests."""
    pid = int(
        (await runtime.infer(InferRequest(model="echo", inputs={"x": np.zeros((1, 1), np.float32)}))).outputs["y"][0, 0]
    )
    array = np.arange(4, dtype=np.float32)[None]
    count = 0

    async def caller(until: float) -> None:
        nonlocal count
        while time.monotonic() < until:
            await runtime.infer(InferRequest(model="echo", inputs={"x": array}))
            count += 1

    async def run(for_s: float) -> None:
        until = time.monotonic() + for_s
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(caller(until))

    await run(0.2)
    count, here, there, began_at = 0, time.process_time(), _cpu_seconds(pid), time.monotonic()
    await run(seconds)
    took = time.monotonic() - began_at
    here, there = time.process_time() - here, _cpu_seconds(pid) - there
    return (
        f"{in_flight:>3} in flight: {count / took:>7.0f}/s, {here / count * 1e6:.1f} us here, "
        f"{there / count * 1e6:.1f} us in the model's process"
    )


def _cpu_seconds(pid: int) -> float:
    """What the process has used so far, by the scheduler's own count in nanoseconds."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


async def main(options: argparse.Namespace) -> None:
    """Both, in one runtime each."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        async with Runtime(Path(folder)) as runtime:
            settle_collector()
            if "large" in options.only:
                print(await large(runtime, options.rounds), flush=True)
            if "small" in options.only:
                for in_flight in (1, 32):
                    print(await small(runtime, in_flight, options.seconds), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="large,small")
    uvloop.run(main(parser.parse_args()))
