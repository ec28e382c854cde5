"""A model that returns its inputs: for tests, and to measure everything but a model.

Parameters, as those of Triton's identity backend:

    execute_delay_ms                how long an execution takes
    instance_wise_delay_multiplier  instance number i (from 1 on) takes i times this as long; instance 0 as long as said
    creation_delay_sec              how long loading takes
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from trilith.core.model import ModelSignature
from trilith.core.tensor import Array, DataType, TensorSpec
from trilith.errors import InvalidConfig
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.port import Batch, ModelFile
from trilith.runtime.spec import DeclaredTensor

_MOST: Final = 600_000.0
"""Of each parameter: ten minutes of delay, in milliseconds."""


class IdentityBackend:
    """The n-th output is the n-th input. Inputs and outputs are those declared; by default FP32 of any length."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        multiplier = _number(file, "instance_wise_delay_multiplier")
        self._delay_s = _number(file, "execute_delay_ms") / 1e3 * max(multiplier * file.instance, 1.0)
        self._load_s = _number(file, "creation_delay_sec")
        self._source: dict[str, str] = {}
        self.concurrent = multiplier == 0.0
        self.inline = self._delay_s == 0.0

    def load(self) -> ModelSignature:
        """Pairs outputs with inputs.

        Raises:
            InvalidConfig: their numbers differ.
        """
        if self._load_s > 0.0:
            time.sleep(self._load_s)
        spec = self._file.spec
        inputs = spec.inputs or (DeclaredTensor(name="INPUT0", datatype=DataType.FP32, dims=(-1,)),)
        outputs = spec.outputs or tuple(
            DeclaredTensor(
                name=f"OUTPUT{at}" if tensor.name == f"INPUT{at}" else f"{tensor.name}_out",
                datatype=tensor.datatype,
                dims=tensor.model_dims,
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
    dims = tensor.model_dims if tensor.model_dims is not None else (-1,)
    return TensorSpec(
        name=tensor.name,
        datatype=tensor.datatype or DataType.FP32,
        shape=(-1, *dims) if batched else dims,
    )


def _number(file: ModelFile, key: str) -> float:
    return Options(file).number(key, 0.0, most=_MOST)
