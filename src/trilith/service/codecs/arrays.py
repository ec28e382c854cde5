"""numpy arrays as nested JSON lists, as `.npy` bytes, and as raw buffers.

Rule 1: never pickle: arrays of Python objects are refused in every encoding.
Rule 2: a size that a header claims is compared with the bytes that are there before anything is allocated.
Rule 3: values are never silently changed: no float becomes an int, no number wraps round, no string becomes a number.
"""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
import orjson

from trilith.core.tensor import Array
from trilith.errors import InvalidInput

NPY_CONTENT_TYPE: Final = "application/x-npy"

_WIRE_KINDS: Final = frozenset("biufcSUMm")  # every kind but objects and structured records
_LADDER: Final = "biufc"  # bool, int, unsigned, float, complex: each may stand where a later one is asked for
_MAX_DIMENSIONS: Final = 32


def from_nested(value: Any, dtype: str) -> Array:
    """An array of nested lists.

    Args:
        value: numbers, bools or strings, in lists of equal lengths; null is NaN where a float dtype is asked for.
        dtype: numpy's name of the dtype wanted, or "" for the one that fits.

    Raises:
        InvalidInput: the lists are ragged, or a value does not fit the dtype.
    """
    wanted = np.dtype(dtype) if dtype else None
    try:
        found = np.asarray(value)
        if found.dtype.kind == "O" and wanted is not None and wanted.kind in "fc":
            found = np.asarray(value, dtype=wanted)
        elif found.dtype.kind == "f" and wanted == np.uint64 and _all_integers(value):
            # numpy has no integer type for both 0 and 2**63 and takes a float; the integers themselves are exact.
            found = np.asarray(value, dtype=wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"expected an array as nested lists of equal lengths: {error}") from error
    if found.dtype.kind == "O":
        raise InvalidInput("expected an array as nested lists of numbers; a value is null, an object or too large")
    return found if wanted is None else fit(found, wanted)


def _all_integers(value: Any) -> bool:
    return all(type(item) is int for item in np.asarray(value, dtype=object).flat)


def fit(found: Array, wanted: np.dtype[Any]) -> Array:
    """The array in the wanted dtype, when no value changes by that (floats may lose precision).

    Raises:
        InvalidInput: a value does not fit.
    """
    if found.dtype == wanted:
        return found
    if found.size == 0:
        return found.astype(wanted)
    if not _reachable(found.dtype.kind, wanted.kind):
        raise InvalidInput(f"expected an array of {wanted}, got {found.dtype}")
    if wanted.kind in "iu" and found.dtype.kind in "iu":
        limits = np.iinfo(wanted)
        low, high = int(found.min()), int(found.max())
        if low < limits.min or high > limits.max:
            raise InvalidInput(f"expected {wanted}, from {limits.min} to {limits.max}; got {low if low < 0 else high}")
    return found.astype(wanted)


def _reachable(found: str, wanted: str) -> bool:
    if found in "iu" and wanted in "iu":
        return True
    if found in _LADDER and wanted in _LADDER:
        return wanted != "b" and _LADDER.index(found) <= _LADDER.index(wanted)
    return found == wanted or (found in "SU" and wanted in "SU")


def check_array(value: Any, dtype: str) -> Array:
    """An array that came as one (from another service or as `.npy`), in the dtype that is declared.

    Raises:
        InvalidInput: it is no array, or does not fit the dtype.
    """
    if not isinstance(value, np.ndarray):
        raise InvalidInput(f"expected an array, got {type(value).__name__}")
    return fit(value, np.dtype(dtype)) if dtype else value


def to_json(value: Any) -> bytes:
    """An array, or a list of arrays, as nested JSON lists. NaN and infinities are null: JSON has no word for them."""
    return orjson.dumps(value, default=to_nested, option=orjson.OPT_SERIALIZE_NUMPY)


def to_nested(value: Any) -> Any:
    """Nested lists of an array; what JSON lacks (bytes, dates, complex numbers) is text.

    Raises:
        TypeError: it is an array of Python objects, or no array.
    """
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _WIRE_KINDS:
        raise TypeError(f"{type(value).__name__} is no array that can be sent")
    if value.dtype.kind in "biufU":
        return value.tolist()
    if value.dtype.kind == "S":
        return np.char.decode(value, "utf-8", "replace").tolist()
    return value.astype(str).tolist()


def from_npy(body: bytes | memoryview) -> Array:
    """The array of a `.npy` file; a view of the bytes where the layout allows it.

    Raises:
        InvalidInput: it is no `.npy` file, is cut short, or holds Python objects.
    """
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read_header(stream)
    except (ValueError, EOFError, KeyError, TypeError, SyntaxError) as error:
        raise InvalidInput(f"expected a .npy file: {error}") from error
    raw = memoryview(body)[stream.tell() :]
    if fortran_order:
        return from_raw(raw, dtype.str if dtype.kind != "O" else "O", tuple(reversed(shape))).transpose()
    return from_raw(raw, dtype.str if dtype.kind != "O" else "O", tuple(shape))


def to_npy(array: Array) -> bytes:
    """The array as a `.npy` file.

    Raises:
        TypeError: it holds Python objects.
    """
    if array.dtype.kind not in _WIRE_KINDS:
        raise TypeError(f"an array of {array.dtype} cannot be sent; use numbers, bools, strings or dates")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def to_raw(array: Array) -> tuple[str, tuple[int, ...], memoryview]:
    """dtype, shape and the bytes of an array; no copy where it is contiguous.

    Raises:
        TypeError: it holds Python objects.
    """
    if array.dtype.kind not in _WIRE_KINDS:
        raise TypeError(f"an array of {array.dtype} cannot be sent; use numbers, bools, strings or dates")
    whole = np.ascontiguousarray(array)
    raw: Any = whole.reshape(-1).view(np.uint8) if whole.size else b""
    return array.dtype.str, array.shape, memoryview(raw)


def from_raw(raw: bytes | memoryview, dtype: str, shape: tuple[Any, ...]) -> Array:
    """The array that a buffer holds: a view of it, no copy.

    Raises:
        InvalidInput: dtype and shape do not make up the bytes that are there.
    """
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise InvalidInput(f"{dtype!r} is not a dtype") from error
    if kind.kind not in _WIRE_KINDS:
        raise InvalidInput(f"an array of {kind} is not read from a request; send numbers, bools, strings or dates")
    count = 1
    for size in shape:
        if not isinstance(size, int) or size < 0 or len(shape) > _MAX_DIMENSIONS:
            raise InvalidInput(f"an array's shape is up to {_MAX_DIMENSIONS} sizes of at least 0, got {shape}")
        count *= size
    if count * kind.itemsize != len(raw):
        raise InvalidInput(f"an array of {kind} and shape {shape} has {count * kind.itemsize} bytes, got {len(raw)}")
    if count == 0 or kind.itemsize == 0:
        return np.zeros(shape, kind)
    return np.frombuffer(raw, kind).reshape(shape)
