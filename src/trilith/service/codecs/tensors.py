"""Arrays as a method declares them: dtype, shape, and whose class: numpy's, or torch's.

Rule 1: this is the one file of this floor that imports torch, when a method declares its tensors.
Rule 2: a tensor travels as an array does. It is made of a copy, so that a method may write to it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from trilith.core.tensor import Array
from trilith.errors import InvalidInput
from trilith.service.codecs import arrays
from trilith.service.constraints import Shape
from trilith.service.kinds import ValueType


def take(value: Any, one: ValueType) -> Any:
    """An array or tensor as declared: dtype, shape, class.

    Raises:
        InvalidInput: it is none, or does not fit.
    """
    return of_array(as_array(value, one), one)


def as_array(value: Any, one: ValueType) -> Array:
    """The array of an array or tensor, in the declared dtype and shape.

    Raises:
        InvalidInput: it is none, or does not fit.
    """
    if is_tensor(value):
        value = _detached(value)
    return shaped(arrays.check_array(value, one.dtype), one)


def of_nested(array: Array, one: ValueType) -> Any:
    """An array that came as nested lists, as declared. Of `[]` the declared shape says how long its rows would be.

    Raises:
        InvalidInput: it has another shape.
    """
    if array.size == 0 and isinstance(one.constraint, Shape) and array.ndim < len(one.constraint.sizes):
        rest = one.constraint.sizes[array.ndim :]
        array = array.reshape((*array.shape, *(size if isinstance(size, int) else 0 for size in rest)))
    return of_array(shaped(array, one), one)


def shaped(array: Array, one: ValueType) -> Array:
    """The array, when it has the declared shape.

    Raises:
        InvalidInput: it has another.
    """
    if isinstance(one.constraint, Shape) and (problem := one.constraint.problem(array.shape)):
        raise InvalidInput(problem)
    return array


def is_tensor(value: object) -> bool:
    """Whether it is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _detached(value: Any) -> Array:
    try:
        found: Array = value.detach().cpu().resolve_conj().resolve_neg().numpy()
        return found
    except (TypeError, RuntimeError) as error:
        raise InvalidInput(f"a tensor of {value.dtype} has no array: {error}; convert it, as by .float()") from error


def plain_array(value: Any) -> Any:
    """The array of a tensor; anything else as it is."""
    return _detached(value) if is_tensor(value) else value


def of_array(array: Array, one: ValueType) -> Any:
    """An array as the declared class.

    Raises:
        InvalidInput: torch has no such dtype.
    """
    if one.library != "torch":
        return array
    import torch

    try:
        return torch.from_numpy(np.array(array, order="C"))
    except TypeError as error:
        raise InvalidInput(f"expected an array of numbers that torch has, got {array.dtype}") from error
