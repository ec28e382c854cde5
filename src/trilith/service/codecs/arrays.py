"""numpy arrays as nested JSON lists, as `.npy` bytes, and as raw buffers.

Rule 1: never pickle (`dtypes.py` says what travels).
Rule 2: a size that a header claims is compared with the bytes that are there before anything is allocated.
Rule 3: values are never silently changed; those of the other byte order are turned round.
Rule 4: orjson gets arrays of numbers alone: of some dates it ends the process.
"""

from __future__ import annotations

import io
import tokenize
from typing import Any, Final

import numpy as np
import orjson

from trilith.core.tensor import Array
from trilith.errors import InvalidInput
from trilith.service.codecs.dtypes import check_text, fit, read_dtype, sendable
from trilith.service.codecs.nested import MAX_DIMENSIONS, from_nested

__all__ = ["check_array", "from_nested", "from_npy", "from_raw", "to_json", "to_nested", "to_npy", "to_raw"]

_VERSIONS: Final = ((1, 0), (2, 0), (3, 0))
_NO_HEADER: Final = (  # what numpy's reader raises for one header or another
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    SyntaxError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
    UserWarning,  # of a header that Python 2 wrote, where warnings are errors
)


def check_array(value: Any, dtype: str) -> Array:
    """An array that came as one (from another service, as `.npy`, or from a method), in the dtype that is declared.

    Raises:
        InvalidInput: it is no array, or does not fit the dtype.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise InvalidInput(f"expected an array, got {type(value).__name__}")
    return fit(value, np.dtype(dtype)) if dtype else value


def to_json(value: Any) -> bytes:
    """An array, or a list of arrays, as nested JSON lists.

    NaN and infinities are null, and so are dates that are none: JSON has no word for them. Dates are ISO 8601 text,
    complex numbers text as Python writes them.

    Raises:
        TypeError: it is an array of Python objects or durations, or no array.
        ValueError: text or bytes in it are no Unicode.
    """
    whole = [_writable(one) for one in value] if isinstance(value, list | tuple) else _writable(value)
    return orjson.dumps(whole, default=to_nested, option=orjson.OPT_SERIALIZE_NUMPY)


def _writable(value: Any) -> Any:
    array = sendable(value)
    return array if array.dtype.kind in "biuf" and array.dtype.isnative else to_nested(array)


def to_nested(value: Any) -> Any:
    """Nested lists of an array, as `to_json` writes them.

    Raises:
        TypeError: it is an array of Python objects or durations, or no array.
        ValueError: text or bytes in it are no Unicode.
    """
    array = sendable(value)
    kind = array.dtype.kind
    if kind in "biufU":
        return array.tolist()
    if kind == "S":
        return np.char.decode(array, "utf-8", "strict").tolist()
    if kind == "c":
        return array.astype(str).tolist()
    if kind == "m":
        raise TypeError(f"an array of {array.dtype} has no form in JSON; return seconds as floats")
    return np.where(np.isnat(array), None, np.datetime_as_string(array)).tolist()  # type: ignore[call-overload]


def from_npy(body: bytes | memoryview) -> Array:
    """The array of a `.npy` file; a view of the bytes where the layout allows it.

    Raises:
        InvalidInput: it is no `.npy` file, is cut short, or holds Python objects.
    """
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in _VERSIONS:
            raise InvalidInput(f"expected a .npy file of version 1.0, 2.0 or 3.0, got {version[0]}.{version[1]}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read_header(stream)
    except _NO_HEADER as error:
        raise InvalidInput(f"expected a .npy file: {str(error)[:200] or type(error).__name__}") from error
    raw = memoryview(body)[stream.tell() :]
    if fortran_order:
        return from_raw(raw, dtype, tuple(reversed(shape))).transpose()
    return from_raw(raw, dtype, tuple(shape))


def to_npy(array: Array) -> bytes:
    """The array as a `.npy` file.

    Raises:
        TypeError: it is of a dtype that does not travel.
        ValueError: it holds text that is none.
    """
    stream = io.BytesIO()
    np.lib.format.write_array(stream, sendable(array), allow_pickle=False)
    return stream.getvalue()


def to_raw(array: Array) -> tuple[str, tuple[int, ...], memoryview]:
    """dtype, shape and the bytes of an array; no copy where it is contiguous.

    Raises:
        TypeError: it is of a dtype that does not travel.
        ValueError: it holds text that is none.
    """
    sent = sendable(array)
    whole = np.ascontiguousarray(sent)
    raw: Any = whole.reshape(-1).view(np.uint8) if whole.size else b""
    return sent.dtype.str, sent.shape, memoryview(raw)


def from_raw(raw: bytes | memoryview, dtype: str | np.dtype[Any], shape: tuple[Any, ...]) -> Array:
    """The array that a buffer holds: a view of it, no copy, unless it is of the other byte order.

    Raises:
        InvalidInput: dtype and shape do not make up the bytes that are there, or text in it is none.
    """
    kind = read_dtype(dtype)
    if len(shape) > MAX_DIMENSIONS or not all(type(size) is int and size >= 0 for size in shape):
        raise InvalidInput(f"an array's shape is up to {MAX_DIMENSIONS} sizes of at least 0, got {str(shape)[:200]}")
    count = 1
    for size in shape:
        count *= size
    if count * kind.itemsize != len(raw):
        raise InvalidInput(f"an array of {kind} and shape {shape} has {count * kind.itemsize} bytes, got {len(raw)}")
    try:
        found = np.frombuffer(raw, kind).reshape(shape) if count else np.zeros(shape, kind)
        check_text(found)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"an array of {kind} and shape {shape} cannot be read: {error}") from error
    return found if kind.isnative else found.astype(kind.newbyteorder("="))
