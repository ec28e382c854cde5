"""A backend that gets each request by itself: what joins tensors is refused, and what is left out is left out."""

from pathlib import Path

import numpy as np
import pytest

from trilith.core.model import ModelSignature
from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig
from trilith.runtime import BackendKind, ModelFile
from trilith.runtime.backends.port import RequestBackend
from trilith.runtime.joining import BatchInput, BatchInputKind, BatchOutput, Padding
from trilith.runtime.load_run import LoadRun
from trilith.runtime.loading import load_version
from trilith.runtime.repository import ModelPlan
from trilith.runtime.request_instances import TicketBatch
from trilith.runtime.sources.progress import silent
from trilith.runtime.spec import DeclaredTensor, ModelSpec
from trilith.runtime.ticket import Ticket
from trilith.runtime.validation import Validator


class Apart(RequestBackend):
    def __init__(self, file):
        self.file = file
        self.closed = 0

    def load(self):
        tensors = [TensorSpec(name=name, datatype=DataType.FP32, shape=(-1, -1)) for name in "abc"]
        return ModelSignature(inputs=tuple(tensors[:2]), outputs=tuple(tensors[2:]))

    def completed(self):
        return self.file.spec

    def attach(self, loop, offer, on_life):
        """Nothing runs here."""

    def begin(self, batch, on_done):
        """Nothing runs here."""

    def close(self):
        self.closed += 1


def load(made, **fields):
    spec = ModelSpec(name="m", backend="apart", max_batch_size=4, **fields)
    file = ModelFile(model="m", version=1, path=None, spec=spec)

    def create(file):
        made.append(Apart(file))
        return made[-1]

    return load_version(
        ModelPlan(spec=spec, kind=BackendKind(create=create), folder=Path(), files=(file,)),
        file,
        silent,
        LoadRun(),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": (DeclaredTensor(name="a", pad=Padding(axis=0)),)},
        {"batch_inputs": (BatchInput(kind=BatchInputKind.ELEMENT_COUNT, targets=("n",), source="a"),)},
        {"batch_outputs": (BatchOutput(targets=("c",), source="a"),)},
    ],
    ids=["pad", "batch_input", "batch_output"],
)
def test_what_joins_tensors_is_refused(fields):
    made = []
    with pytest.raises(InvalidConfig, match=r"pad, batch_input and batch_output are not offered for backend 'apart'"):
        load(made, **fields)
    assert [backend.closed for backend in made] == [1]


def test_an_input_that_was_left_out_is_not_given():
    offer = load([], inputs=(DeclaredTensor(name="a", optional=True),)).offer
    b = np.ones((1, 2), np.float32)
    request = InferRequest(model="m", inputs={"b": b})
    admitted = Validator("m", offer).admit(request)
    ticket = Ticket(None, request, admitted, None, None, priority=1, deadline=None, alone=False)
    batch = TicketBatch([ticket], ["a", "b"], ("c",))
    assert [list(inputs) for inputs in batch.inputs] == [["b"]]
