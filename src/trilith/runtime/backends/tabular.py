"""Models that take one table, a row a request's row: what their backends share.

An adapter opens the file and says which functions of a table it offers; this file makes a backend of that.

Rule 1: datatypes and widths of outputs are found by trying the model on two rows of zeros, when it is loaded.
Rule 2: an output is a table too: where a library gives one value a row, it has one column. (A shape without a second
    dimension cannot be written down in Triton's configuration.)
Rule 3: a declared datatype is what clients see: numbers are converted where numpy calls that `same_kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from trilith.core.model import ModelSignature
from trilith.core.tensor import NUMPY_OF, Array, DataType, TensorSpec, datatype_of
from trilith.errors import InvalidConfig, InvalidInput, SetupError
from trilith.runtime.backends.files import declared_signature, model_path, must_declare, reason, unreadable
from trilith.runtime.backends.port import Batch, ModelFile

INPUT: Final = "input__0"
OUTPUT: Final = "output__0"
_TRIAL_ROWS: Final = 2

Function = Callable[[Array], Array]
"""A table [n, width] in; [n] or [n, width] out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An opened model.

    Attributes:
        functions: what it offers, by output name; a single one may be renamed by the configuration.
        width: columns that it takes, or None when the file does not say.
        datatype: of the input, unless declared.
        enter_thread: prepares a thread that will call the functions.
    """

    functions: Mapping[str, Function]
    width: int | None
    datatype: DataType
    enter_thread: Callable[[], None] = lambda: None


class TabularBackend:
    """One model of tables.

    Args:
        file: what to load.
        library: name of the library, for messages.
        open_table: opens the file at a path. What it raises, but `SetupError`, is put down to the file.
    """

    def __init__(self, file: ModelFile, library: str, open_table: Callable[[ModelFile, Path], Table]) -> None:
        self._file = file
        self._library = library
        self._open = open_table
        self._table: Table | None = None
        self._functions: dict[str, Function] = {}
        self._dtypes: dict[str, DataType] = {}
        self._input = INPUT
        self.concurrent = True
        self.inline = False

    def load(self) -> ModelSignature:
        """Opens the file and tries the model.

        Raises:
            UnknownReference: the library is not installed, or there is no such file.
            InvalidConfig: a parameter or a declaration is wrong.
            SetupError: the file is no such model, or does not say what it takes.
        """
        path = model_path(self._file)
        try:
            table = self._open(self._file, path)
        except SetupError:
            raise
        except Exception as error:
            raise unreadable(path, self._library, error) from error
        source = self._input_spec(table)
        self._functions = self._chosen(table)
        outputs = tuple(self._output_spec(name, source) for name in self._functions)
        self._dtypes = {spec.name: spec.datatype for spec in outputs}
        self._table, self._input = table, source.name
        return ModelSignature(inputs=(source,), outputs=outputs)

    def enter_thread(self) -> None:
        """Prepares the thread as the library needs it."""
        if self._table is not None:
            self._table.enter_thread()

    def run(self, batch: Batch) -> Sequence[Array]:
        """Computes the outputs that are wanted, and no others.

        Raises:
            InvalidInput: a BYTES element is not UTF-8.
        """
        rows = _as_library_takes(batch.inputs[self._input])
        return [_as_table(self._functions[name](rows), self._dtypes[name]) for name in batch.outputs]

    def close(self) -> None:
        """Lets go of the model."""
        self._table = None
        self._functions = {}

    def _input_spec(self, table: Table) -> TensorSpec:
        declared = self._file.spec.inputs
        if len(declared) > 1:
            raise InvalidConfig(
                f"model '{self._file.model}': inputs: the {self._file.spec.backend} backend takes one table, got "
                f"{', '.join(tensor.name for tensor in declared)}"
            )
        name = declared[0].name if declared else INPUT
        datatype = (declared[0].datatype if declared else None) or table.datatype
        width = table.width
        if width is None:
            dims = declared[0].model_dims if declared else None
            if not dims or dims[-1] < 1:
                raise must_declare(self._file, "the model does not say how many columns it takes", [name], [])
            width = dims[-1]
        return TensorSpec(name=name, datatype=datatype, shape=(-1, width))

    def _chosen(self, table: Table) -> dict[str, Function]:
        """The functions that are offered: those declared, or all."""
        declared = [tensor.name for tensor in self._file.spec.outputs]
        known = table.functions
        if len(known) == 1 and len(declared) == 1:
            return {declared[0]: next(iter(known.values()))}
        unknown = [name for name in declared if name not in known]
        if unknown:
            raise InvalidConfig(
                f"model '{self._file.model}': unexpected output '{unknown[0]}', the model's outputs are: "
                f"{', '.join(known)}"
            )
        return {name: known[name] for name in declared or known}

    def _output_spec(self, name: str, source: TensorSpec) -> TensorSpec:
        declared = [tensor for tensor in self._file.spec.outputs if tensor.name == name]
        try:
            found = self._functions[name](_as_library_takes(_trial(source)))
            shape = (-1, *np.shape(found)[1:]) if np.ndim(found) > 1 else (-1, 1)
            own = datatype_of(np.asarray(found)) if np.asarray(found).dtype != object else DataType.BYTES
        except Exception as error:
            spec = declared_signature(self._file, declared)
            if spec is not None:
                return spec[0]
            why = f"its output '{name}' could not be found by a trial run on zeros ({reason(error)})"
            raise must_declare(self._file, why, [source.name], [name]) from error
        wanted = declared[0].datatype if declared else None
        if wanted is not None and np.can_cast(NUMPY_OF[own], NUMPY_OF[wanted], "same_kind"):
            own = wanted
        return TensorSpec(name=name, datatype=own, shape=shape)


def _trial(source: TensorSpec) -> Array:
    shape = (_TRIAL_ROWS, *source.shape[1:])
    return (
        np.full(shape, b"0", object)
        if source.datatype is DataType.BYTES
        else np.zeros(shape, NUMPY_OF[source.datatype])
    )


def _as_library_takes(rows: Array) -> Array:
    """Text as `str`; everything else as it is."""
    if rows.dtype != object:
        return rows
    try:
        texts = [element.decode() if isinstance(element, bytes) else element for element in rows.flat]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"elements of a text input must be UTF-8: {error}") from error
    result = np.empty(len(texts), object)
    result[:] = texts
    return result.reshape(rows.shape)


def _as_table(found: Array, datatype: DataType) -> Array:
    array = np.asarray(found)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if datatype is DataType.BYTES:
        texts = np.empty(array.size, object)
        texts[:] = [element if isinstance(element, bytes) else str(element).encode() for element in array.flat]
        return texts.reshape(array.shape)
    return np.ascontiguousarray(array, NUMPY_OF[datatype])
