"""Which arrays travel, and how one becomes another dtype.

Rule 1: never pickle: arrays of Python objects and structured records are refused, in every encoding.
Rule 2: values are never silently changed: no float becomes an int, no number wraps round or becomes infinite, no text
is cut. Floats may lose precision.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trilith.core.tensor import Array
from trilith.errors import InvalidInput

_KINDS: Final = frozenset("biufcSUMm")  # bool, int, unsigned, float, complex, bytes, text, date, duration
_LADDER: Final = "biufc"  # each may stand where a later one is asked for
_ITEMSIZES: Final = {"f": 8, "c": 16}  # the longest that are the same on every machine
_DATE_UNITS: Final = frozenset({"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"})
_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)


def problem_of(dtype: np.dtype[Any]) -> str:
    """Why arrays of a dtype do not travel; "" when they do."""
    if dtype.kind not in _KINDS:
        return "send numbers, bools, text or dates"
    if dtype.itemsize == 0:
        return "its items hold nothing"
    if dtype.itemsize > _ITEMSIZES.get(dtype.kind, dtype.itemsize):
        return "it is not the same on every machine; send float64 or complex128"
    if dtype.kind in "Mm":
        unit, multiple = np.datetime_data(dtype)
        if multiple != 1 or unit not in _DATE_UNITS:
            return f"send one of the units {', '.join(sorted(_DATE_UNITS))}, without a multiple"
    return ""


def read_dtype(name: Any) -> np.dtype[Any]:
    """The dtype that a request names.

    Raises:
        InvalidInput: there is no such dtype, or arrays of it are not read.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(name)
    except (TypeError, ValueError, SyntaxError, RecursionError) as error:
        raise InvalidInput(f"{str(name)[:100]!r} is not a dtype") from error
    if problem := problem_of(dtype):
        raise InvalidInput(f"an array of {dtype} is not read from a request; {problem}")
    return dtype


def check_text(array: Array) -> None:
    """Looks at each character of an array of text.

    Raises:
        ValueError: one is no character of Unicode: half of a surrogate pair, or too large a number.
    """
    if array.dtype.kind != "U" or array.size == 0:
        return
    points = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False).reshape(-1).view(np.uint32)
    low, high = _SURROGATES
    if bool(np.any((points > _LAST_CODE_POINT) | ((points >= low) & (points <= high)))):
        raise ValueError("an array of text holds something that is no character of Unicode")


def sendable(value: Any) -> Array:
    """The array as it travels: long floats become float64, dates of an odd unit one of the usual, when that is exact.

    Raises:
        TypeError: it is no array, or one of a dtype that does not travel.
        ValueError: it holds text that is none.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} is no array")
    problem = problem_of(value.dtype)
    if problem and value.dtype.kind in "fcMm" and (converted := _usual(value)) is not None:
        return converted
    if problem and not (value.dtype.kind in "SU" and value.size == 0):
        raise TypeError(f"an array of {value.dtype} cannot be sent; {problem}")
    check_text(value)
    return value


def _usual(value: Array) -> Array | None:
    if value.dtype.kind in "fc":
        wanted = np.dtype(np.float64 if value.dtype.kind == "f" else np.complex128)
    else:
        unit, _ = np.datetime_data(value.dtype)
        wanted = np.dtype(f"{value.dtype.kind}8[{unit if unit in _DATE_UNITS else 'ns'}]")
    with np.errstate(over="ignore"):
        converted = value.astype(wanted)
    return converted if _same(value, converted.astype(value.dtype)) else None


def _same(left: Array, right: Array) -> bool:
    return np.array_equal(left, right, equal_nan=left.dtype.kind in "fcMm")


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
        _check_range(found, wanted)
    if wanted.kind in "fc":
        return _as_float(found, wanted)
    try:
        converted = found.astype(wanted)
        exact = wanted.kind in "biu" or _same(found, converted.astype(found.dtype))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"expected an array of {wanted}, got {found.dtype} that does not fit: {error}") from error
    if not exact:
        raise InvalidInput(f"expected an array of {wanted}, got {found.dtype} with values that it cannot hold")
    return converted


def _check_range(found: Array, wanted: np.dtype[Any]) -> None:
    limits = np.iinfo(wanted)
    low, high = int(found.min()), int(found.max())
    if low < limits.min or high > limits.max:
        raise InvalidInput(f"expected {wanted}, from {limits.min} to {limits.max}; got {low if low < 0 else high}")


def _as_float(found: Array, wanted: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore"):
        converted = found.astype(wanted)
    if wanted.itemsize < found.dtype.itemsize or wanted.kind == found.dtype.kind or wanted.itemsize == 2:
        overflown = np.isinf(converted)
        if bool(overflown.any()) and not bool(np.isinf(found[overflown]).all()):
            limit = float(np.finfo(wanted).max)
            raise InvalidInput(f"expected {wanted}, at most {limit:.6g}; got {found[overflown].reshape(-1)[0]}")
    return converted


def _reachable(found: str, wanted: str) -> bool:
    if found in "iu" and wanted in "iu":
        return True
    if found in _LADDER and wanted in _LADDER:
        return wanted != "b" and _LADDER.index(found) <= _LADDER.index(wanted)
    return found == wanted or (found in "SU" and wanted in "SU")
