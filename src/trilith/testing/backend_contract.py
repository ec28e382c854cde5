"""What the runtime relies on in a backend, as checks: an adapter is done when it passes.

    @pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
    def test_my_backend(check):
        check(lambda: MyBackend(file))

Rule: a check makes its own backends, loads and closes them, and raises `ContractBroken` with a sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from trilith.core.request import InferRequest
from trilith.core.tensor import NUMPY_OF, Array, DataType, TensorSpec
from trilith.runtime import Backend, Batch, ModelSignature

MakeBackend = Callable[[], Backend]
_FREE_SIZE: Final = 3  # for a dimension of any size


class ContractBroken(AssertionError):
    """A backend does not do what the runtime relies on."""


def signature_is_complete(make: MakeBackend) -> None:
    """Names are there and unique, and every dimension is a size or -1."""
    with _loaded(make) as (_, signature):
        for role, specs in (("input", signature.inputs), ("output", signature.outputs)):
            names = [spec.name for spec in specs]
            _require(len(set(names)) == len(names), f"{role} names are not unique: {names}")
            _require(all(names), f"an {role} has no name")
            for spec in specs:
                _require(all(size >= -1 for size in spec.shape), f"{role} '{spec.name}' has shape {spec.shape}")
        _require(bool(signature.outputs), "a model must have an output")


def outputs_are_as_declared(make: MakeBackend) -> None:
    """`run` gives what the signature promises, in the order asked for."""
    with _loaded(make) as (backend, signature):
        names = tuple(reversed([spec.name for spec in signature.outputs]))
        arrays = _run(backend, signature, names, _inputs(signature, rows=2))
        declared = {spec.name: spec for spec in signature.outputs}
        for name, array in zip(names, arrays, strict=True):
            spec = declared[name]
            _require(
                array.dtype == NUMPY_OF[spec.datatype], f"output '{name}' is {array.dtype}, declared {spec.datatype}"
            )
            fits = len(array.shape) == len(spec.shape) and all(
                size in (-1, given) for given, size in zip(array.shape, spec.shape, strict=True)
            )
            _require(fits or not spec.shape, f"output '{name}' has shape {array.shape}, declared {spec.shape}")


def outputs_may_be_chosen(make: MakeBackend) -> None:
    """Each output may be asked for alone, and is the same then."""
    with _loaded(make) as (backend, signature):
        inputs = _inputs(signature, rows=1)
        names = tuple(spec.name for spec in signature.outputs)
        together = _run(backend, signature, names, inputs)
        for name, expected in zip(names, together, strict=True):
            (alone,) = _run(backend, signature, (name,), inputs)
            _require(_same(alone, expected), f"output '{name}' differs when it is asked for alone")


def rows_are_independent(make: MakeBackend) -> None:
    """A batch gives what its rows give one by one, when the first dimension is free."""
    with _loaded(make) as (backend, signature):
        if not _batches(signature):
            return
        names = tuple(spec.name for spec in signature.outputs)
        first, second = _inputs(signature, rows=1, seed=1), _inputs(signature, rows=2, seed=2)
        joined = {name: np.concatenate([first[name], second[name]]) for name in first}
        together = _run(backend, signature, names, joined)
        apart = zip(_run(backend, signature, names, first), _run(backend, signature, names, second), strict=True)
        for name, whole, parts in zip(names, together, apart, strict=True):
            _require(_same(whole, np.concatenate(parts)), f"output '{name}' of a row depends on the other rows")


def inputs_are_left_alone(make: MakeBackend) -> None:
    """Inputs may be read-only memory, and are not changed."""
    with _loaded(make) as (backend, signature):
        inputs = _inputs(signature, rows=1)
        before = {name: array.copy() for name, array in inputs.items()}
        for array in inputs.values():
            array.flags.writeable = False
        _run(backend, signature, tuple(spec.name for spec in signature.outputs), inputs)
        for name, array in inputs.items():
            _require(_same(array, before[name]), f"input '{name}' was changed")


def earlier_outputs_stay(make: MakeBackend) -> None:
    """What a run gave is not changed by the next."""
    with _loaded(make) as (backend, signature):
        names = tuple(spec.name for spec in signature.outputs)
        first = _run(backend, signature, names, _inputs(signature, rows=1, seed=1))
        copies = [array.copy() for array in first]
        _run(backend, signature, names, _inputs(signature, rows=1, seed=2))
        for name, array, copy in zip(names, first, copies, strict=True):
            _require(_same(array, copy), f"output '{name}' of an earlier run was changed by a later one")


def threads_agree(make: MakeBackend) -> None:
    """A backend that calls itself concurrent gives the same in four threads."""
    with _loaded(make) as (backend, signature):
        if not backend.concurrent:
            return
        names = tuple(spec.name for spec in signature.outputs)
        inputs = _inputs(signature, rows=1)
        expected = _run(backend, signature, names, inputs)
        wrong: list[str] = []

        def run() -> None:
            backend.enter_thread()
            for _ in range(20):
                for name, array, reference in zip(
                    names, _run(backend, signature, names, inputs), expected, strict=True
                ):
                    if not _same(array, reference):
                        wrong.append(name)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _require(not wrong, f"outputs {sorted(set(wrong))} differ when several threads run the model")


def closing_is_always_possible(make: MakeBackend) -> None:
    """`close` works without `load`, and a new backend loads after an old one was closed."""
    make().close()
    for _ in range(2):
        with _loaded(make):
            pass


BACKEND_CHECKS: Final[tuple[Callable[[MakeBackend], None], ...]] = (
    signature_is_complete,
    outputs_are_as_declared,
    outputs_may_be_chosen,
    rows_are_independent,
    inputs_are_left_alone,
    earlier_outputs_stay,
    threads_agree,
    closing_is_always_possible,
)
"""Every check. Each takes what makes a backend that is not loaded yet."""


@contextmanager
def _loaded(make: MakeBackend) -> Iterator[tuple[Backend, ModelSignature]]:
    backend = make()
    try:
        yield backend, backend.load()
    finally:
        backend.close()


def _batches(signature: ModelSignature) -> bool:
    return all(spec.shape[:1] == (-1,) for spec in (*signature.inputs, *signature.outputs))


def _inputs(signature: ModelSignature, *, rows: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {spec.name: _random(spec, rows, generator) for spec in signature.inputs}


def _random(spec: TensorSpec, rows: int, generator: np.random.Generator) -> Array:
    free = [rows if at == 0 else _FREE_SIZE for at in range(len(spec.shape))]
    shape = tuple(free[at] if size == -1 else size for at, size in enumerate(spec.shape))
    if spec.datatype is DataType.BYTES:
        texts = np.empty(int(np.prod(shape)), object)
        texts[:] = [f"text {number}".encode() for number in generator.integers(0, 99, texts.size)]
        return texts.reshape(shape)
    return np.asarray(generator.integers(0, 2, shape)).astype(NUMPY_OF[spec.datatype])


def _run(
    backend: Backend, signature: ModelSignature, outputs: tuple[str, ...], inputs: dict[str, Array]
) -> list[Array]:
    rows = next(iter(inputs.values())).shape[0] if _batches(signature) and inputs else 1
    request = InferRequest(model="contract", inputs=inputs, outputs=outputs)
    arrays = list(backend.run(Batch(inputs=inputs, outputs=outputs, rows=rows, requests=[request])))
    _require(len(arrays) == len(outputs), f"asked for {len(outputs)} outputs, got {len(arrays)}")
    return arrays


def _same(one: Array, other: Array) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind in "OSUb":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-5))


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ContractBroken(sentence)
