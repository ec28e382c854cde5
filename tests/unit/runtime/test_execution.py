"""Batches are assembled, run, split, and run again in halves: all without a thread."""

import numpy as np
import pytest

from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidInput, ModelError
from trilith.runtime.execution import Execution
from trilith.runtime.signature import Offer
from trilith.runtime.ticket import Ticket
from trilith.runtime.validation import Admitted
from trilith.testing.backends import EchoBackend, FlakyBackend
from trilith.testing.clock import FakeClock

PAIR = tuple(TensorSpec(name=name, datatype=DataType.FP32, shape=(-1, 2)) for name in ("a", "b"))


def execution_of(backend, *, pure=True, batched=True):
    signature = backend.load()
    offer = Offer(inputs=signature.inputs, outputs=signature.outputs, max_batch_size=8 if batched else 0)
    return Execution("m", offer, pure=pure, clock=FakeClock())


def ticket(*arrays, outputs=()):
    request = InferRequest(model="m", inputs={}, outputs=outputs)
    admitted = Admitted(list(arrays), len(arrays[0]), None)
    return Ticket(None, request, admitted, None, lambda _: None, priority=1, deadline=None, alone=False)


def rows(value, count=1):
    return np.full((count, 2), value, np.float32)


def bad_value(batch):
    return bool((batch.inputs["x"] == 13).any())


def test_rows_come_together_and_go_apart_as_views():
    backend = EchoBackend()
    tickets = [ticket(rows(1, 2)), ticket(rows(2)), ticket(rows(3))]
    (executed,) = execution_of(backend).run(backend, tickets, 0.0)
    assert backend.executed == [4]
    assert [outputs["y"].tolist() for outputs in executed.outputs] == [[[1, 1], [1, 1]], [[2, 2]], [[3, 3]]]
    assert executed.outputs[0]["y"].base is executed.outputs[1]["y"].base


def test_a_request_alone_is_not_copied():
    backend = EchoBackend()
    array = rows(1)
    (executed,) = execution_of(backend).run(backend, [ticket(array)], 0.0)
    assert executed.outputs[0]["y"] is array


def test_memory_that_a_backend_could_not_read_is_copied():
    backend = EchoBackend()
    array = np.ones((2, 4), np.float32)[:, ::2]
    (executed,) = execution_of(backend).run(backend, [ticket(array)], 0.0)
    assert executed.outputs[0]["y"].flags.c_contiguous


def test_outputs_are_those_asked_for_in_that_order():
    backend = EchoBackend(inputs=PAIR)
    execution = execution_of(backend)
    tickets = [ticket(rows(1), rows(2), outputs=("y1", "y0")), ticket(rows(3), rows(4), outputs=("y1",))]
    (executed,) = execution.run(backend, tickets, 0.0)
    assert [list(outputs) for outputs in executed.outputs] == [["y1", "y0"], ["y1"]]
    (executed,) = execution.run(backend, [tickets[0], ticket(rows(3), rows(4))], 0.0)
    assert [list(outputs) for outputs in executed.outputs] == [["y1", "y0"], ["y0", "y1"]]
    (executed,) = execution.run(backend, [tickets[0]], 0.0)
    assert list(executed.outputs[0]) == ["y1", "y0"]


def test_one_bad_request_fails_alone():
    backend = FlakyBackend(bad_value)
    tickets = [ticket(rows(value)) for value in (1, 2, 13, 4, 5)]
    parts = execution_of(backend).run(backend, tickets, 0.0)
    assert all(part.retried for part in parts)
    assert [ticket for part in parts for ticket in part.tickets] == tickets
    failed = [part for part in parts if part.error is not None]
    assert [part.tickets for part in failed] == [[tickets[2]]]
    with pytest.raises(ModelError, match=r"model 'm' failed: RuntimeError: flaky"):
        raise failed[0].error


def test_a_model_that_is_not_pure_is_run_once():
    backend = FlakyBackend(bad_value)
    (executed,) = execution_of(backend, pure=False).run(backend, [ticket(rows(1)), ticket(rows(13))], 0.0)
    assert isinstance(executed.error, ModelError)
    assert backend.executed == [2]


class Ending(Exception):
    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


@pytest.mark.parametrize("error", [Ending(), SystemExit(3)])
def test_a_thread_outlives_what_a_model_raises(error):
    backend = FlakyBackend(lambda _: True, error=error)
    (executed,) = execution_of(backend).run(backend, [ticket(rows(1))], 0.0)
    assert isinstance(executed.error, ModelError)
    assert executed.error.message.startswith(f"model 'm' failed: {type(error).__name__}: ")


def test_errors_of_the_tree_keep_their_kind():
    backend = FlakyBackend(lambda _: True, error=InvalidInput("not UTF-8"))
    (executed,) = execution_of(backend).run(backend, [ticket(rows(1))], 0.0)
    assert isinstance(executed.error, InvalidInput)


class Misbehaving(EchoBackend):
    def __init__(self, change):
        super().__init__()
        self._change = change

    def run(self, batch):
        return self._change(super().run(batch))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda arrays: [], "returned 0 outputs, expected 1"),
        (lambda arrays: [arrays[0][:1]], r"output 'y' has shape \[1, 2\] for a batch of 2 rows"),
        (lambda arrays: [np.float32(1)], r"output 'y' has shape \[\]"),
    ],
)
def test_outputs_that_cannot_be_split_are_the_model_s_fault(change, says):
    backend = Misbehaving(change)
    (executed,) = execution_of(backend, pure=False).run(backend, [ticket(rows(1)), ticket(rows(2))], 0.0)
    with pytest.raises(ModelError, match=says):
        raise executed.error


def test_without_a_batch_dimension_any_shape_may_come_back():
    backend = Misbehaving(lambda arrays: [np.float32(1).reshape(())])
    (executed,) = execution_of(backend, batched=False).run(backend, [ticket(rows(1))], 0.0)
    assert executed.outputs[0]["y"].shape == ()
