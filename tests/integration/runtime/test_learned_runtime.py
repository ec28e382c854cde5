"""A runtime that runs learns what its batches take, shape by shape, where nobody says how large they should be."""

import asyncio

import numpy as np
import pytest

from trilith.core.request import InferRequest
from trilith.runtime import Runtime, RuntimeConfig
from trilith.runtime.protocol.metrics import model_source
from trilith.runtime.schedule import BatchSizer
from trilith.testing.backends import EchoBackend, kind_of


def request(width):
    return InferRequest(model="m", inputs={"x": np.zeros((1, width), np.float32)})


@pytest.fixture
def learn(repository, run):
    """The statistics and curves of a model with this configuration after some requests of two widths."""

    def serve(yaml, *, inline=False, metrics=False):
        (repository / "m" / "1").mkdir(parents=True)
        (repository / "m" / "model.yaml").write_text(f"backend: echo\n{yaml}")
        kinds = {"echo": kind_of(EchoBackend(inline=inline))}

        async def main():
            async with Runtime(repository, config=RuntimeConfig(backends=kinds)) as runtime:
                for _ in range(10):
                    await asyncio.gather(*(runtime.infer(request(3 + at % 2)) for at in range(40)))
                if metrics:
                    assert model_source(runtime)()
                return runtime.statistics()[0], runtime.learned("m")

        return run(main())

    return serve


def test_every_shape_has_its_curve(learn):
    statistics, curves = learn("max_batch_size: 8\n")
    assert sorted(curve.shape for curve in curves) == [((3,),), ((4,),)]
    sizes = {batch.batch_size for batch in statistics.batches}
    for curve in curves:
        assert {point.rows for point in curve.points} <= sizes
        assert all(point.seconds > 0.0 and point.runs > 0 for point in curve.points)
        assert 1 <= curve.chosen_rows <= 8


@pytest.mark.parametrize(
    "yaml", ["max_batch_size: 1\n", "batching: {preferred: [2]}\n", "batching: {adaptive: false}\n"]
)
def test_nothing_is_learned_where_there_is_nothing_to_choose(learn, yaml):
    assert learn(yaml)[1] == ()


def test_nothing_is_learned_of_what_takes_microseconds(learn):
    assert learn("", inline=True)[1] == ()


def test_whoever_reads_the_metrics_pays_for_no_curve(learn, monkeypatch):
    computed = []
    learned = BatchSizer.learned
    monkeypatch.setattr(BatchSizer, "learned", lambda *of: computed.append(of) or learned(*of))
    _, curves = learn("max_batch_size: 8\n", metrics=True)
    assert len(computed) == len(curves) == 2, "once for each shape, when they were asked for"
