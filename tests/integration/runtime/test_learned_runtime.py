"""A runtime that runs learns what its batches take, shape by shape, where nobody says how large they should be."""

import asyncio

import numpy as np
import pytest

from trilith.core.request import InferRequest
from trilith.runtime import Runtime, RuntimeConfig
from trilith.testing.backends import EchoBackend, kind_of


def request(width):
    return InferRequest(model="m", inputs={"x": np.zeros((1, width), np.float32)})


@pytest.fixture
def statistics_of(repository, run):
    """The statistics of a model with this configuration after some requests of two widths."""

    def serve(yaml, *, inline=False):
        (repository / "m" / "1").mkdir(parents=True)
        (repository / "m" / "model.yaml").write_text(f"backend: echo\n{yaml}")
        kinds = {"echo": kind_of(EchoBackend(inline=inline))}

        async def main():
            async with Runtime(repository, config=RuntimeConfig(backends=kinds)) as runtime:
                for _ in range(10):
                    await asyncio.gather(*(runtime.infer(request(3 + at % 2)) for at in range(40)))
                return runtime.statistics()[0]

        return run(main())

    return serve


def test_every_shape_has_its_curve(statistics_of):
    statistics = statistics_of("max_batch_size: 8\n")
    assert sorted(curve.shape for curve in statistics.learned) == [((3,),), ((4,),)]
    sizes = {batch.batch_size for batch in statistics.batches}
    for curve in statistics.learned:
        assert {point.rows for point in curve.points} <= sizes
        assert all(point.seconds > 0.0 and point.runs > 0 for point in curve.points)
        assert 1 <= curve.chosen_rows <= 8


@pytest.mark.parametrize(
    "yaml", ["max_batch_size: 1\n", "batching: {preferred: [2]}\n", "batching: {adaptive: false}\n"]
)
def test_nothing_is_learned_where_there_is_nothing_to_choose(statistics_of, yaml):
    assert statistics_of(yaml).learned == ()


def test_nothing_is_learned_of_what_takes_microseconds(statistics_of):
    assert statistics_of("", inline=True).learned == ()
