"""A model that returns its inputs: for tests, and to measure everything but a model.

Parameter `execute_delay_ms`: how long an execution takes, as the parameter of that name in Triton's identity backend.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trilith.core.model import ModelSignature
from trilith.core.tensor import Array, DataType, TensorSpec
from trilith.errors import InvalidConfig
from trilith.runtime.backends.port import Batch, ModelFile
from trilith.runtime.spec import DeclaredTensor


class IdentityBackend:
    """The n-th output is the n-th input. Inputs and outputs are those declared; by default FP32 of any length."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._delay_s = _delay_s(file)
        self._source: dict[str, str] = {}
        self.concurrent = True
        self.inline = self._delay_s == 0.0

    def load(self) -> ModelSignature:
        """Pairs outputs with inputs.

        Raises:
            InvalidConfig: their numbers differ.
        """
        spec = self._file.spec
        inputs = spec.inputs or (DeclaredTensor(name="INPUT0", datatype=DataType.FP32, dims=(-1,)),)
        outputs = spec.outputs or tuple(
            DeclaredTensor(
                name=f"OUTPUT{at}" if tensor.name == f"INPUT{at}" else f"{tensor.name}_out",
                datatype=tensor.datatype,
                dims=tensor.dims,
            )
            for at, tensor in enumerate(inputs)
        )
        if len(inputs) != len(outputs):
            raise InvalidConfig(
                f"model '{spec.name}': the identity backend needs as many outputs as inputs, got {len(outputs)} "
                f"outputs and {len(inputs)} inputs"
            )
        self._source = {there.name: here.name for here, there in zip(inputs, outputs, strict=True)}
        batched = spec.max_batch_size != 0
        return ModelSignature(
            inputs=tuple(_tensor(tensor, batched) for tensor in inputs),
            outputs=tuple(_tensor(tensor, batched) for tensor in outputs),
        )

    def enter_thread(self) -> None:
        """A thread needs no preparation."""

    def run(self, batch: Batch) -> Sequence[Array]:
        """Waits for the delay, and gives the inputs back."""
        if self._delay_s > 0.0:
            time.sleep(self._delay_s)
        return [batch.inputs[self._source[name]] for name in batch.outputs]

    def close(self) -> None:
        """There is nothing to free."""


def _tensor(tensor: DeclaredTensor, batched: bool) -> TensorSpec:
    dims = tensor.dims if tensor.dims is not None else (-1,)
    return TensorSpec(
        name=tensor.name,
        datatype=tensor.datatype or DataType.FP32,
        shape=(-1, *dims) if batched else dims,
    )


def _delay_s(file: ModelFile) -> float:
    text = file.spec.parameters.get("execute_delay_ms", "0")
    try:
        delay_ms = float(text)
    except ValueError:
        delay_ms = -1.0
    if not 0.0 <= delay_ms <= 600_000.0:
        raise InvalidConfig(
            f"model '{file.model}': parameters.execute_delay_ms: must be a number from 0 to 600000, got {text!r}"
        )
    return delay_ms / 1e3
