"""Nested lists become an array.

Rule 1: kinds and sizes of all values are looked at before an array is made. numpy would make one of a kind for all:
numbers that stand beside text become text, and one long text makes all others as long.
Rule 2: the walk is over levels, not values: what is done for each value is done by C.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from trilith.core.tensor import Array
from trilith.errors import InvalidInput
from trilith.service.codecs.dtypes import check_text, fit

MAX_DIMENSIONS: Final = 32
_TEXT_BYTES: Final = 64 << 20  # an array of text takes 4 bytes x longest x count: this much may come of short ones
_TEXT_GROWTH: Final = 8  # bytes of the array for each character that came
_NUMBERS: Final = frozenset({int, float})
_NAMES: Final = {int: "integers", float: "floats", bool: "bools", str: "text", type(None): "null", dict: "objects"}


def from_nested(value: Any, dtype: str) -> Array:
    """An array of nested lists.

    Args:
        value: numbers, bools or text, in lists of equal lengths; null is NaN where a float dtype is asked for.
        dtype: numpy's name of the dtype wanted, or "" for the one that fits.

    Raises:
        InvalidInput: the lists are ragged, values of several kinds are mixed, or a value does not fit the dtype.
    """
    wanted = np.dtype(dtype) if dtype else None
    shape, flat = _flatten(value)
    found = _array(flat, set(map(type, flat)), wanted).reshape(shape)
    return found if wanted is None else fit(found, wanted)


def _flatten(value: Any) -> tuple[tuple[int, ...], list[Any]]:
    shape: list[int] = []
    level = [value]
    while (kinds := set(map(type, level))) and list in kinds:
        if len(kinds) > 1:
            others = ", ".join(sorted(_name(kind) for kind in kinds - {list}))
            raise InvalidInput(
                f"expected nested lists of equal lengths; at level {len(shape) + 1} a list is beside {others}"
            )
        lengths = set(map(len, level))
        if len(lengths) > 1:
            raise InvalidInput(
                f"expected nested lists of equal lengths; at level {len(shape) + 1} they have from {min(lengths)} "
                f"to {max(lengths)} items"
            )
        shape.append(lengths.pop())
        if len(shape) > MAX_DIMENSIONS:
            raise InvalidInput(f"expected nested lists, at most {MAX_DIMENSIONS} levels of them")
        level = list(itertools.chain.from_iterable(level))
    return tuple(shape), level


def _name(kind: type) -> str:
    return _NAMES.get(kind, kind.__name__)


def _array(flat: list[Any], kinds: set[type], wanted: np.dtype[Any] | None) -> Array:
    """The array of one dimension, of the dtype that the values have."""
    if not kinds:
        return np.empty(0, np.float64 if wanted is None else wanted)
    floating = wanted is not None and wanted.kind in "fc"
    numbers = kinds - {type(None)} if floating else kinds
    if numbers <= _NUMBERS:
        if kinds == {int}:
            return _integers(flat, floating)
        return _floats(flat)
    if kinds == {bool}:
        return np.array(flat, np.bool_)
    if kinds == {str}:
        if wanted is not None and wanted.kind not in "SU":
            raise InvalidInput(f"expected an array of {wanted}, got text")
        return _text(flat)
    got = ", ".join(sorted(_name(kind) for kind in kinds))
    wish = "numbers, bools or text, all of one kind" if wanted is None else str(wanted)
    raise InvalidInput(f"expected an array of {wish}, as nested lists; got {got}")


def _integers(flat: list[Any], floating: bool) -> Array:
    for dtype in (np.int64, np.uint64):
        try:
            return np.array(flat, dtype)
        except OverflowError:
            continue
    if not floating:
        raise InvalidInput("expected an array of integers that fit into 64 bits; there are larger ones")
    return _floats(flat)


def _floats(flat: list[Any]) -> Array:
    try:
        found = np.array(flat, np.float64)
    except OverflowError as error:
        raise InvalidInput("expected an array of numbers; one is too large") from error
    if bool(np.isinf(found).any()):  # 1e999 was read as that
        raise InvalidInput("expected an array of numbers; one is too large, or an infinity, which JSON does not have")
    return found


def _text(flat: list[str]) -> Array:
    longest, characters = max(map(len, flat)), sum(map(len, flat))
    size_bytes = 4 * longest * len(flat)
    if size_bytes > max(_TEXT_BYTES, _TEXT_GROWTH * characters):
        raise InvalidInput(
            f"an array of {len(flat)} texts of up to {longest} characters would take {size_bytes >> 20} MiB, as each "
            "item of an array is as long as the longest; send texts of about the same length"
        )
    if any(text.endswith("\0") for text in flat):
        raise InvalidInput("an array of text cannot hold a text that ends in U+0000")
    found = np.array(flat, np.str_)
    try:
        check_text(found)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    return found
