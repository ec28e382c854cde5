"""Whether a request fits its model, found out before it joins a batch: one bad request never spoils another's.

Rule 1: the fast path looks at each input once. Sentences are written only when something is wrong.
Rule 2: the texts are Triton's where Triton has one, because its users search for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, NoReturn

import numpy as np

from trilith.core.request import InferRequest
from trilith.core.tensor import NUMPY_OF, Array, DataType, TensorSpec, datatype_of
from trilith.errors import InvalidInput
from trilith.runtime.signature import Offer

_BATCH_NOTE: Final = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try "
    "setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


class _Expected:
    """One input, prepared for checking."""

    __slots__ = ("dims", "dtype", "free", "name", "optional", "pad", "rank", "reshape", "spec")

    def __init__(self, spec: TensorSpec, skip: int, offer: Offer) -> None:
        self.spec = spec
        self.name = spec.name
        self.dtype = NUMPY_OF[spec.datatype]
        self.rank = len(spec.shape)
        self.dims = spec.shape[skip:]
        self.free = -1 in self.dims and spec.name not in offer.ragged
        self.pad = offer.padded.get(spec.name)
        self.optional = spec.name in offer.optional
        self.reshape = offer.reshapes.get(spec.name)


class Admitted:
    """A request that may join a batch.

    Attributes:
        arrays: its inputs in the model's order and shapes, native.
        rows: how many rows of a batch it takes; 1 where the model has no batch dimension.
        shape: requests with equal ones may share a batch.
        names: which inputs `arrays` are, where some were left out; None for all of the model's.
    """

    __slots__ = ("arrays", "names", "rows", "shape")

    def __init__(self, arrays: list[Array], rows: int, shape: Hashable, names: tuple[str, ...] | None = None) -> None:
        self.arrays = arrays
        self.rows = rows
        self.shape = shape
        self.names = names


class Validator:
    """Checks requests against what a model offers."""

    __slots__ = ("_batched", "_inputs", "_max_batch_size", "_model", "_outputs", "_skip")

    def __init__(self, model: str, offer: Offer) -> None:
        self._model = model
        self._max_batch_size = offer.max_batch_size
        self._batched = offer.max_batch_size > 0
        self._skip = 1 if self._batched else 0
        self._inputs = [_Expected(spec, self._skip, offer) for spec in offer.inputs]
        self._outputs = frozenset(spec.name for spec in offer.outputs)

    def admit(self, request: InferRequest) -> Admitted:
        """Checks names, datatypes, shapes, batch sizes and the outputs wanted.

        Raises:
            InvalidInput: what is wrong, where, and what was expected.
        """
        given = request.inputs
        names = self._names(given) if len(given) != len(self._inputs) else None
        arrays: list[Array] = []
        free: list[tuple[int, ...]] = []
        skip, rows = self._skip, 1
        for expected in self._inputs:
            array = given.get(expected.name)
            if array is None:
                if names is not None and expected.optional:
                    continue
                self._refuse_names(given)
            try:
                is_native = array.dtype is expected.dtype
            except AttributeError:
                raise InvalidInput(
                    f"input '{expected.name}' of model '{self._model}' must be an array of numpy, got "
                    f"{type(array).__name__}: numpy.asarray(...) makes one"
                ) from None
            if not is_native:
                array = self._native(expected, array)
            shape = array.shape
            dims = shape[skip:]
            if len(shape) != expected.rank or (dims != expected.dims and not _fits(dims, expected)):
                self._refuse_shape(expected, shape)
            if expected.free:
                free.append(dims if expected.pad is None else expected.pad.key(dims))
            if skip:
                if arrays and shape[0] != rows:
                    raise InvalidInput(
                        f"input '{expected.name}' batch size does not match other inputs for '{self._model}'"
                    )
                rows = shape[0]
            if expected.reshape is not None:
                array = array.reshape((*shape[:skip], *expected.reshape.inward(dims)))
            arrays.append(array)
        if skip and not 1 <= rows <= self._max_batch_size:
            self._refuse_rows(rows)
        if request.outputs and not self._outputs.issuperset(request.outputs):
            self._refuse_outputs(request.outputs)
        if names is not None:
            return Admitted(arrays, rows, (names, *free), names)
        return Admitted(arrays, rows, tuple(free) if free else None)

    def _names(self, given: dict[str, Any]) -> tuple[str, ...]:
        """The inputs that are given, in the model's order, when some that may be left out are."""
        names = tuple(expected.name for expected in self._inputs if expected.name in given)
        if len(names) != len(given) or any(not (each.optional or each.name in given) for each in self._inputs):
            self._refuse_names(given)
        return names

    def _native(self, expected: _Expected, array: Array) -> Array:
        """The array in the expected dtype, when it says the same in another form (text, byte order)."""
        if array.dtype == expected.dtype:
            return array
        try:
            datatype: DataType | None = datatype_of(array)
        except TypeError:
            datatype = None
        if datatype is not expected.spec.datatype:
            raise InvalidInput(
                f"inference input '{expected.name}' data-type is '{datatype or array.dtype}', but model "
                f"'{self._model}' expects '{expected.spec.datatype}'"
            )
        if datatype is DataType.BYTES:
            return np.char.encode(array, "utf-8").astype(np.object_) if array.dtype.kind == "U" else array.astype("O")
        return array.astype(expected.dtype)

    def _refuse_names(self, given: dict[str, Any]) -> NoReturn:
        names = [expected.name for expected in self._inputs]
        for name in given:
            if name not in names:
                raise InvalidInput(
                    f"unexpected inference input '{name}' for model '{self._model}'; its inputs are {names}"
                )
        required = [expected.name for expected in self._inputs if not expected.optional]
        missing = [name for name in required if name not in given]
        count = f"{len(names)} inputs"
        if len(required) < len(names):
            count = f"number of inputs between {len(required)} and {len(names)}"
        raise InvalidInput(
            f"expected {count} but got {len(given)} inputs for model '{self._model}'. Got input(s) "
            f"{_quoted(given)}, but missing required input(s) {_quoted(missing)}. Please provide all required input(s)."
        )

    def _refuse_shape(self, expected: _Expected, shape: tuple[int, ...]) -> NoReturn:
        # Where there are as many dimensions as there must be, none was left out.
        note = _BATCH_NOTE if self._batched and len(shape) != expected.rank else ""
        raise InvalidInput(
            f"unexpected shape for input '{expected.name}' for model '{self._model}'. Expected "
            f"{_listed(expected.spec.shape)}, got {_listed(shape)}.{note}"
        )

    def _refuse_rows(self, rows: int) -> NoReturn:
        if rows < 1:
            raise InvalidInput(f"inference request batch-size must be >= 1 for '{self._model}', got {rows}")
        raise InvalidInput(
            f"inference request batch-size must be <= {self._max_batch_size} for '{self._model}', got {rows}"
        )

    def _refuse_outputs(self, wanted: tuple[str, ...]) -> NoReturn:
        wrong = next(name for name in wanted if name not in self._outputs)
        raise InvalidInput(
            f"unexpected inference output '{wrong}' for model '{self._model}'; its outputs are {sorted(self._outputs)}"
        )


def _fits(dims: tuple[int, ...], expected: _Expected) -> bool:
    return all(declared in (-1, given) for given, declared in zip(dims, expected.dims, strict=True))


def _quoted(names: Iterable[str]) -> str:
    """`['A','B']`, as Triton writes it."""
    return "[" + ",".join(f"'{name}'" for name in names) + "]"


def _listed(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
