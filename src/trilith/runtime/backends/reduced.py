"""A backend whose outputs are reduced where they are made, before anything moves them.

A recogniser of text gives 18,710 probabilities for each 8 pixels; what its caller wants is the best one. Done here, in
the instance's thread right after the run, the values are still in the cache, and a thousandth of them leaves.

Rule: a reduction replaces its output by others with names of their own, so nobody mistakes one for the other.

    argmax   OUTPUT [..., N] becomes OUTPUT.index, INT32 [...], and OUTPUT.value [...]: the largest and where it is
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trilith.core.model import ModelSignature
from trilith.core.tensor import Array, DataType, TensorSpec
from trilith.errors import SetupError
from trilith.runtime.backends.port import Backend, Batch
from trilith.runtime.reductions import INDEX, VALUE


class ReducedBackend:
    """Wraps a backend.

    Args:
        inner: runs the model.
        reductions: kind of reduction by output; `argmax` is the one there is.
    """

    inline = False

    def __init__(self, inner: Backend, reductions: Mapping[str, str]) -> None:
        self._inner = inner
        self._reductions = reductions
        self.concurrent = inner.concurrent

    def load(self) -> ModelSignature:
        """The model's signature with the reduced outputs in place of their originals.

        Raises:
            SetupError: the model cannot be loaded, or has no such output to reduce.
        """
        signature = self._inner.load()
        known = {spec.name: spec for spec in signature.outputs}
        for name in self._reductions:
            if name not in known:
                raise SetupError(f"outputs: reduce: there is no output {name!r}; the model has {', '.join(known)}")
            if len(known[name].shape) < 2:
                shape = list(known[name].shape)
                raise SetupError(f"outputs: reduce: {name!r} has the shape {shape}, which has nothing to reduce")
        outputs = [reduced for spec in signature.outputs for reduced in self._reduced_specs(spec)]
        return ModelSignature(inputs=signature.inputs, outputs=tuple(outputs), metadata=signature.metadata)

    def enter_thread(self) -> None:
        """Prepares the calling thread."""
        self._inner.enter_thread()

    def run(self, batch: Batch) -> Sequence[Array]:
        """Runs the model, then reduces."""
        wanted = tuple(dict.fromkeys(self._original(name) for name in batch.outputs))
        inner = Batch(inputs=batch.inputs, outputs=wanted, rows=batch.rows, requests=batch.requests)
        given = dict(zip(wanted, self._inner.run(inner), strict=True))
        for name in self._reductions:
            if name in given:
                index, value = argmax(given.pop(name))
                given[name + INDEX], given[name + VALUE] = index, value
        return [given[name] for name in batch.outputs]

    def close(self) -> None:
        """Frees the model."""
        self._inner.close()

    def _reduced_specs(self, spec: TensorSpec) -> list[TensorSpec]:
        if spec.name not in self._reductions:
            return [spec]
        shape = spec.shape[:-1]
        return [
            TensorSpec(name=spec.name + INDEX, datatype=DataType.INT32, shape=shape),
            TensorSpec(name=spec.name + VALUE, datatype=spec.datatype, shape=shape),
        ]

    def _original(self, name: str) -> str:
        for suffix in (INDEX, VALUE):
            if name.endswith(suffix) and name.removesuffix(suffix) in self._reductions:
                return name.removesuffix(suffix)
        return name


def argmax(values: Array) -> tuple[Array, Array]:
    """Where the largest value along the last axis is, int32 [...], and that value [...]."""
    index = values.argmax(axis=-1)
    value = np.take_along_axis(values, index[..., None], axis=-1)[..., 0]
    return index.astype(np.int32), value
