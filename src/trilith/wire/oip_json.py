"""Tensor data as JSON, in both directions.

Rule 1: `data` is flat in row-major order, or nested; nested lists of one level have equal lengths.
Rule 2: no value is bent to fit. 1.5 is no INT32, 300 no UINT8, 1e300 no FP32, true and "1" no numbers.
Rule 3: the work on each element is done inside C (set, map, min, numpy); Python loops only to find the culprit.
Rule 4: NaN and infinities travel as the literals NaN, Infinity and -Infinity, as with Triton; that is not JSON, but
    what Python's json and rapidjson read and write.
Rule 5: text is Unicode. Half of a surrogate pair is refused wherever it stands: no answer could repeat it.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np
import orjson

from trilith.core.tensor import NUMPY_OF, Array, DataType
from trilith.errors import InvalidInput
from trilith.wire.oip_status import JsonTypeError
from trilith.wire.oip_tensor import Signature, byte_elements, native, object_array

MAX_NESTING: Final = 100
"""Triton's limit on the depth of a request's JSON."""

_MIN_TOO_DEEP_BYTES: Final = 2 * MAX_NESTING
_NESTED: Final = frozenset((list, dict))
_FLOATS: Final = frozenset((DataType.FP32, DataType.FP64))
_RAW_ONLY: Final = frozenset((DataType.FP16, DataType.BF16))
_RANGES: Final[dict[DataType, tuple[int, int]]] = {
    datatype: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    for datatype, dtype in NUMPY_OF.items()
    if dtype.kind in "iu" and datatype is not DataType.BF16
}
_KINDS: Final[dict[DataType, tuple[frozenset[type], str]]] = {
    **{datatype: (frozenset((int,)), "an integer") for datatype in _RANGES},
    **{datatype: (frozenset((int, float)), "a number") for datatype in _FLOATS},
    DataType.BOOL: (frozenset((bool,)), "true or false"),
    DataType.BYTES: (frozenset((str,)), "a string"),
}


def loads(body: bytes | memoryview) -> Any:
    """Reads JSON; NaN and Infinity are allowed.

    Raises:
        InvalidInput: not JSON, or text in it is none; the message has the position.
    """
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        text = bytes(body)
        if "depth limit" in str(error) or "allocate memory" in str(error):  # for what is deep and not closed
            raise _too_deep() from None
        if b"NaN" not in text and b"Infinity" not in text:
            raise InvalidInput(f"failed to parse the request JSON: {error}") from None
    else:
        if len(body) > _MIN_TOO_DEEP_BYTES:
            _check_nesting(bytes(body), message)
        return message
    try:
        message = json.loads(text.decode())
        if b"\\ud" in text.lower():  # Python's json reads half of a surrogate pair, and orjson does not
            json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            "failed to parse the request JSON: it holds half of a surrogate pair, which is no text"
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise InvalidInput(f"failed to parse the request JSON: {error}") from None
    _check_nesting(text, message)
    return message


def array_from_json(
    signature: Signature, name: str, datatype: DataType, shape: tuple[int, ...], count: int, data: object
) -> Array:
    """An input tensor from the value of its `data`.

    Args:
        signature: of the model, for messages.
        name: the input.
        datatype: its datatype.
        shape: its shape, checked.
        count: the number of elements that the shape asks for.
        data: what the JSON holds, as `loads` read it.

    Raises:
        InvalidInput: a wrong type, range, number of elements or nesting; FP16 and BF16, which JSON cannot carry.
    """
    if datatype in _RAW_ONLY:
        raise InvalidInput(
            f"receiving {datatype} data via JSON is not supported. Please use the binary data format for input {name}"
        )
    if type(data) is not list:
        raise JsonTypeError("data", "array", f" (input '{name}': 'data' must be a list, got {_kind(data)})")
    flat, kinds = _flatten(name, data)
    expected, words = _KINDS[datatype]
    if not kinds <= expected:
        _raise_first(name, datatype, flat, lambda element: type(element) not in expected, f"must be {words}")
    if len(flat) != count:
        raise InvalidInput(
            f"Unable to parse 'data': Shape does not match true shape of 'data' field: input '{name}' for model "
            f"'{signature.model}' has shape {list(shape)}, that is {count} elements, and {len(flat)} in 'data'"
        )
    if datatype is DataType.BYTES:
        return object_array([element.encode() for element in flat], shape)
    if datatype in _RANGES and flat:
        low, high = _RANGES[datatype]
        if min(flat) < low or max(flat) > high:
            _raise_first(
                name, datatype, flat, lambda element: not low <= element <= high, f"must be from {low} to {high}"
            )
    try:
        with np.errstate(over="raise"):
            return np.array(flat, NUMPY_OF[datatype]).reshape(shape)
    except (OverflowError, FloatingPointError):
        greatest = float(np.finfo(NUMPY_OF[datatype]).max)
        _raise_first(
            name, datatype, flat, lambda element: greatest < abs(element) != math.inf, "is too large; it must be finite"
        )


def json_from_array(signature: Signature, name: str, datatype: DataType, array: Array) -> Any:
    """An output tensor's `data`: something flat that `dumps` takes.

    Raises:
        InvalidInput: the datatype, or bytes that are no UTF-8, cannot travel as JSON: binary data must be asked for.
        ModelError: a BYTES element is neither bytes nor str.
    """
    if datatype in _RAW_ONLY:
        raise InvalidInput(
            f"sending {datatype} data via JSON is not supported. Please use the binary data format for output {name}"
        )
    if datatype is DataType.BYTES:
        try:
            return [element.decode() for element in byte_elements(signature, name, array)]
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"output '{name}' of model '{signature.model}' holds bytes that are not UTF-8 and cannot travel as "
                f"JSON ({error.reason}). Please use the binary data format for output {name}"
            ) from None
    return native(array).ravel()


def dumps(message: dict[str, Any]) -> bytes:
    """Writes JSON in which values may be flat arrays.

    orjson writes a NaN or an infinity as null. So only an answer with a null in it is looked at again, and written with
    the literals NaN and Infinity if one of its arrays holds them.
    """
    text = orjson.dumps(message, default=to_builtin, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in text and any(
        isinstance(data, np.ndarray) and data.dtype.kind == "f" and not np.isfinite(data).all()
        for data in (output.get("data") for output in message.get("outputs", ()))
    ):
        return json.dumps(message, default=to_builtin, separators=(",", ":"), ensure_ascii=False).encode()
    return text


def _check_nesting(text: bytes, message: Any) -> None:
    """Refuses what is nested too deep. Looks closely only where brackets enough are open for it."""
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING:
        return
    level = [message]
    for _ in range(MAX_NESTING):
        inner: list[Any] = []
        for value in level:
            if type(value) is dict:
                inner += [each for each in value.values() if type(each) in _NESTED]
            elif type(value) is list and not _NESTED.isdisjoint(map(type, value)):
                inner += [each for each in value if type(each) in _NESTED]
        if not inner:
            return
        level = inner
    raise _too_deep()


def _too_deep() -> InvalidInput:
    return InvalidInput(
        f"failed to parse the request JSON: JSON nesting depth exceeds maximum allowed limit ({MAX_NESTING})"
    )


def to_builtin(value: object) -> object:
    """What Python calls an array or scalar of numpy, for `default` of JSON's writers.

    orjson itself writes neither scalars of `longlong` and `ulonglong`, which runtimes written in C++ return, nor arrays
    without dimensions or that are not contiguous.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _flatten(name: str, data: list[Any]) -> tuple[list[Any], set[type]]:
    """The elements in row-major order, and the set of their types."""
    for _ in range(MAX_NESTING):
        kinds = set(map(type, data))
        if list not in kinds:
            return data, kinds
        if len(kinds) > 1:
            index = next(index for index, element in enumerate(data) if type(element) is not list)
            raise InvalidInput(
                f"input '{name}': 'data' mixes lists and single values at one level: element {index} is "
                f"{_kind(data[index])} beside lists"
            )
        if len(set(map(len, data))) > 1:
            index = next(index for index, element in enumerate(data) if len(element) != len(data[0]))
            raise InvalidInput(
                f"input '{name}': nested 'data' must be rectangular: the list at index {index} has "
                f"{len(data[index])} elements, the one at index 0 has {len(data[0])}"
            )
        data = list(itertools.chain.from_iterable(data))
    raise InvalidInput(f"input '{name}': JSON nesting depth exceeds maximum allowed limit ({MAX_NESTING})")


def _raise_first(
    name: str, datatype: DataType, flat: Sequence[Any], wrong: Callable[[Any], bool], words: str
) -> NoReturn:
    """Names the first element for which `wrong` holds."""
    index, element = next((index, element) for index, element in enumerate(flat) if wrong(element))
    raise InvalidInput(f"input '{name}': element {index} of 'data' {words} for {datatype}, got {_kind(element)}")


def _kind(value: object) -> str:
    """What JSON calls a value, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {value!r:.40}"
        case int() | float():
            return f"the number {value!r:.40}"
        case list():
            return "a list"
        case _:
            return "an object"
