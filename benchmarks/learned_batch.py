"""What the learned batch size gives beside fixed ones, on models where batching wins and where it loses.

    python benchmarks/learned_batch.py [--seconds 5] [--rounds 3] [--callers 64] [--only mlp,ocr-rec]

    mlp      a wide multi-layer perceptron: its weights are read once a batch, so that large batches win
    ocr-rec  PP-OCR's recognition (examples/ocr/models) on crops of many widths, each batch padded to its widest: on a
             CPU batches gain less than padding costs, so that one row wins
    fixed-ms a model that takes 20 ms for up to 16 rows: the largest batch wins

Each is served in this process by `Runtime` with one instance, first with fixed sizes, then with sizes that are learned
from nothing; rounds go fixed, learned, fixed, learned. Learning is measured twice: from the first request on
(`learning`), and once it has seen `--batches` batches (`learned`), which a slow model takes long for. Rows a second are
medians. The ratios are of one round each, to the size that is best by the medians of all rounds: the best of each round
would be the luckiest. A table on standard output; some three minutes a model.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

from trilith.measure import read_conditions
from trilith.runtime import InferRequest, LearnedCurve, ModelStatistics, Runtime

_OCR_REC = Path(__file__).resolve().parent.parent / "examples" / "ocr" / "models" / "ocr-rec" / "model.yaml"
_LEARN_WITHIN_S = 30.0
_WIDTH = 2048
_LAYERS = 3
_Served = tuple[list[float], ModelStatistics, tuple[LearnedCurve, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model and what it is asked."""

    write: Callable[[Path, int], None]
    requests: list[dict[str, Any]]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long it may take.

    Attributes:
        seconds: of each run.
        rounds: of all runs.
        callers: requests in flight.
        batches: after which it should have learned.
    """

    seconds: float = 5.0
    rounds: int = 3
    callers: int = 64
    batches: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Rows a second, round by round.

    Attributes:
        fixed: of each fixed size.
        learning: from the first request on.
        learned: when it has learned.
        last: what the runtime counted in the last run of learning.
        curves: what it learned in that run, by shape.
    """

    fixed: dict[int, list[float]]
    learning: list[float]
    learned: list[float]
    last: ModelStatistics
    curves: tuple[LearnedCurve, ...] = ()

    @property
    def medians(self) -> dict[int, float]:
        """Of each fixed size."""
        return {size: statistics.median(found) for size, found in self.fixed.items()}

    @property
    def best(self) -> int:
        """The fixed size that is best by the medians."""
        medians = self.medians
        return max(medians, key=lambda size: medians[size])

    def ratios(self, rates: list[float]) -> list[float]:
        """Of each round, to the best size in the same round."""
        return [rate / other for rate, other in zip(rates, self.fixed[self.best], strict=True)]


def main() -> int:
    options = _options()
    table = Table(title=f"rows/s, {options.callers} callers, one instance", title_justify="left")
    for column in ("model", "1 row", "best fixed", "largest fixed", "learning", "learned", "chosen", "sizes that ran"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name in options.only:
        effort = Effort(
            seconds=options.seconds, rounds=options.rounds, callers=options.callers, batches=options.batches
        )
        table.add_row(name, *_row(measure(name, effort)))
    Console(highlight=False, width=170).print(table)
    for key, value in read_conditions(("trilith", "onnxruntime")).items():
        print(f"{key}: {value}")
    return 0


def measure(name: str, effort: Effort) -> Measured:
    """Rounds of fixed sizes and of learning on one of the models. Tells each run on standard error."""
    workload = _workloads()[name]
    fixed: dict[int, list[float]] = {size: [] for size in workload.sizes}
    learning, learned = [], []
    for _ in range(effort.rounds):
        for size in workload.sizes:
            rates, _, _ = uvloop.run(_serve(workload, size, effort))
            fixed[size].append(rates[0])
            print(f"{name}: {size} rows: {rates[0]:.1f} rows/s", file=sys.stderr, flush=True)
        rates, last, curves = uvloop.run(_serve(workload, 0, effort))
        learning.append(rates[0])
        learned.append(rates[-1])
        print(f"{name}: learned: {rates[0]:.1f}, then {rates[-1]:.1f} rows/s", file=sys.stderr, flush=True)
    return Measured(fixed=fixed, learning=learning, learned=learned, last=last, curves=curves)


def _row(measured: Measured) -> list[str]:
    medians, best, last = measured.medians, measured.best, measured.last
    return [
        f"{medians[1]:.1f}",
        f"{medians[best]:.1f} ({best})",
        f"{medians[max(medians)]:.1f} ({max(medians)})",
        _beside(measured.learning, measured.ratios(measured.learning)),
        _beside(measured.learned, measured.ratios(measured.learned)),
        " ".join(str(curve.chosen_rows) for curve in measured.curves),
        " ".join(f"{each.batch_size}:{each.compute_infer.count}" for each in last.batches),
    ]


def _beside(rates: list[float], ratios: list[float]) -> str:
    """The median, and how it stands to the best fixed size in the same round."""
    return f"{statistics.median(rates):.1f} ({statistics.median(ratios):.2f} x: {min(ratios):.2f} to {max(ratios):.2f})"


async def _serve(workload: Workload, size: int, effort: Effort) -> _Served:
    """Rows a second with batches of at most `size` rows; for 0, learned: at the beginning, and when it has learned."""
    with tempfile.TemporaryDirectory() as folder:
        workload.write(Path(folder) / "m", size)
        async with Runtime(folder) as runtime:
            requests = [InferRequest(model="m", inputs=inputs) for inputs in workload.requests]
            for request in requests:  # the first run of each shape prepares memory
                await runtime.infer(request)
            rates = [await _load(runtime, requests, effort.seconds, effort.callers)]
            if size == 0:
                give_up_at = time.monotonic() + _LEARN_WITHIN_S
                while runtime.statistics()[0].execution_count < effort.batches and time.monotonic() < give_up_at:
                    await _load(runtime, requests, 0.5, effort.callers)
                rates.append(await _load(runtime, requests, effort.seconds, effort.callers))
            return rates, runtime.statistics()[0], runtime.learned("m")


async def _load(runtime: Runtime, requests: list[InferRequest], seconds: float, callers: int) -> float:
    endless = itertools.cycle(requests)
    done = 0
    started = time.monotonic()

    async def caller() -> None:
        nonlocal done
        while time.monotonic() < started + seconds:
            await runtime.infer(next(endless))
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return done / (time.monotonic() - started)


def _yaml(size: int, largest: int) -> str:
    """Fixed: nothing is learned, and what waits goes together up to `size`."""
    if size:
        return f"max_batch_size: {size}\nbatching: {{adaptive: false}}\n"
    return f"max_batch_size: {largest}\n"


def _workloads() -> dict[str, Workload]:
    generator = np.random.default_rng(0)
    widths = generator.choice((64, 96, 128, 192, 256, 320), 30)
    return {
        "mlp": Workload(
            write=_write_mlp, requests=[{"x": generator.random((1, _WIDTH), np.float32)}], sizes=(1, 4, 8, 16, 32)
        ),
        "ocr-rec": Workload(
            write=_write_ocr_rec,
            requests=[{"x": generator.random((1, 3, 48, width), np.float32)} for width in widths],
            sizes=(1, 2, 4, 8),
        ),
        "fixed-ms": Workload(write=_write_fixed, requests=[{"x": np.zeros((1, 4), np.float32)}], sizes=(1, 4, 16)),
    }


def _write_mlp(folder: Path, size: int) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    generator = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for layer in range(_LAYERS):
        made = generator.standard_normal((_WIDTH, _WIDTH), np.float32) / _WIDTH
        weights.append(numpy_helper.from_array(made, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        last = "y" if layer == _LAYERS - 1 else f"r{layer}"
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [last]))
    row = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", _WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "mlp", row[:1], row[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "1").mkdir(parents=True)
    onnx.save(model, folder / "1" / "model.onnx")
    (folder / "model.yaml").write_text(_yaml(size, 32))


def _write_ocr_rec(folder: Path, size: int) -> None:
    kept = [
        line for line in _OCR_REC.read_text().splitlines() if not line.startswith(("#", "max_batch_size", "instances"))
    ]
    folder.mkdir(parents=True)
    padded = "inputs: [{name: x, pad: {axis: -1}}]"
    (folder / "model.yaml").write_text("\n".join([*kept, padded, _yaml(size, 8)]))


def _write_fixed(folder: Path, size: int) -> None:
    folder.mkdir(parents=True)
    (folder / "model.yaml").write_text(
        "backend: identity\nparameters: {execute_delay_ms: 20}\n"
        "inputs: [{name: x, datatype: FP32, dims: [4]}]\noutputs: [{name: y, datatype: FP32, dims: [4]}]\n"
        + _yaml(size, 16)
    )


_DEFAULT = Effort()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks/learned_batch.py", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=_DEFAULT.seconds, help="of each run")
    parser.add_argument("--rounds", type=int, default=_DEFAULT.rounds)
    parser.add_argument("--batches", type=int, default=_DEFAULT.batches, help="after which it should have learned")
    parser.add_argument("--callers", type=int, default=_DEFAULT.callers, help="requests in flight")
    parser.add_argument("--only", type=_models, default=list(_workloads()), metavar="MODELS")
    return parser.parse_args()


def _models(text: str) -> list[str]:
    names, known = text.split(","), list(_workloads())
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
