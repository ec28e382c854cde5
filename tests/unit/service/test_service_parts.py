"""Calls of a model with more rows than one request may bring."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.model import ModelSignature
from trilith.errors import Cancelled, ModelError
from trilith.service import ModelProxy
from trilith.service.parts import AT_ONCE, parts_of


@given(st.integers(0, 200), st.integers(0, 20))
def test_parts_are_all_rows_once_in_order_and_none_is_too_large(rows, most):
    parts = parts_of({"x": np.zeros((rows, 2)), "y": np.zeros(rows)}, most)
    if not most or rows <= most:
        assert parts is None
    else:
        assert [row for part in parts for row in range(part.start, part.stop)] == list(range(rows))
        assert all(0 < part.stop - part.start <= most for part in parts)
        assert len(parts) == -(-rows // most)


@pytest.mark.parametrize(
    "inputs", [{}, {"x": np.zeros(5), "y": np.zeros(6)}, {"x": np.float32(1)}, {"x": [1, 2, 3, 4, 5]}]
)
def test_what_does_not_agree_is_left_to_the_runtime(inputs):
    assert parts_of(inputs, 2) is None


class Doubler:
    """A model of at most 4 rows; a row of -1 fails."""

    def __init__(self):
        self.seen = []
        self.running = self.most_running = self.cancelled = 0

    async def signature(self):
        return ModelSignature(inputs=("x",), outputs=("y", "n"), max_batch_size=4)

    async def infer(self, inputs):
        self.seen.append(len(inputs["x"]))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0 if (inputs["x"] == -1).any() else 0.001)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if (inputs["x"] == -1).any():
            raise ModelError("minus one")
        return {"y": inputs["x"] * 2, "n": np.full(len(inputs["x"]), b"a", object)}


@given(st.integers(0, 60))
def test_answers_are_joined_in_the_order_of_the_rows(rows):
    model = Doubler()
    x = np.arange(rows, dtype=np.float32).reshape(rows, 1)
    found = asyncio.run(ModelProxy("m", model, None)._infer({"x": x}))
    assert np.array_equal(found["y"], x * 2)
    assert found["n"].tolist() == [b"a"] * rows
    assert sum(model.seen) == rows
    assert max(model.seen) <= 4
    assert model.most_running <= AT_ONCE


def test_the_first_failure_ends_the_call_and_takes_the_others_back():
    model = Doubler()
    x = np.zeros((40, 1), np.float32)
    x[5] = -1
    with pytest.raises(ModelError, match="minus one"):
        asyncio.run(ModelProxy("m", model, None)._infer({"x": x}))
    assert model.running == 0
    assert model.cancelled > 0


class Stuck(Doubler):
    """Rows of 0 are never answered."""

    def __init__(self):
        super().__init__()
        self.most_tasks = 0

    async def infer(self, inputs):
        self.most_tasks = max(self.most_tasks, len(asyncio.all_tasks()))
        if (inputs["x"] == 0).all():
            self.running += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.running -= 1
        return await super().infer(inputs)


def test_a_later_part_that_fails_ends_a_call_whose_first_part_hangs():
    model = Stuck()
    x = np.ones((4 * 100, 1), np.float32)
    x[:4], x[40] = 0, -1
    with pytest.raises(ModelError, match="minus one") as failed:
        asyncio.run(asyncio.wait_for(ModelProxy("m", model, None)._infer({"x": x}), 10))
    assert failed.value.__context__ is None
    assert model.running == 0
    assert len(model.seen) < 40, "the rest is not sent"
    assert model.most_tasks <= AT_ONCE + 2


def test_a_call_that_is_cancelled_takes_its_parts_back():
    async def main():
        model = Stuck()
        call = asyncio.ensure_future(ModelProxy("m", model, None)._infer({"x": np.zeros((80, 1), np.float32)}))
        while model.running < AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert model.running == 0

    asyncio.run(main())


def test_a_part_that_is_cancelled_from_elsewhere_is_no_answer():
    class Ending(Doubler):
        async def infer(self, inputs):
            raise asyncio.CancelledError

    with pytest.raises(Cancelled, match="3 of the 3 parts"):
        asyncio.run(ModelProxy("m", Ending(), None)._infer({"x": np.zeros((9, 1), np.float32)}))
