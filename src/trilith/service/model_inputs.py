"""What a method gives to a model that is no array yet, as the arrays that the model takes.

Rule 1: lists, tuples, numbers, texts and pictures become arrays of the datatype that the model declares. An array is
never changed: what it holds was chosen by who made it.
Rule 2: no value changes on the way but for a float's rounding to the model's own floats; 1.5 is no integer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trilith.errors import InvalidInput

if TYPE_CHECKING:
    from trilith.core.model import ModelSignature
    from trilith.core.tensor import Array, TensorSpec


def are_arrays(inputs: Mapping[str, Any]) -> bool:
    """Whether nothing has to be made an array. What has a dtype is one, or is refused as one by the model."""
    return all(hasattr(value, "dtype") for value in inputs.values())


def as_arrays(model: str, signature: ModelSignature, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs as arrays.

    Args:
        model: its name, for messages.
        signature: what it takes.
        inputs: by name.

    Raises:
        InvalidInput: a value is no array of the datatype that the model declares.
    """
    specs = {spec.name: spec for spec in signature.inputs}
    return {
        name: value if hasattr(value, "dtype") else _array(model, name, specs.get(name), value)
        for name, value in inputs.items()
    }


def _array(model: str, name: str, spec: TensorSpec | None, value: Any) -> Array:
    import numpy as np

    from trilith.core.tensor import NUMPY_OF, DataType

    where = f"model {model}: input {name}"
    try:
        found: Array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{where}: expected an array, or lists of equal lengths: {error}") from error
    if found.dtype.kind == "O":
        raise InvalidInput(f"{where}: expected an array, or lists of numbers or texts, got {type(value).__name__}")
    if spec is None or spec.datatype is DataType.BYTES:
        return found
    if spec.datatype is DataType.BF16:
        raise InvalidInput(f"{where} is BF16, which numpy has not: give an array of uint16 with its raw 16 bits")
    wanted = NUMPY_OF[spec.datatype]
    if found.size == 0:
        return found.astype(wanted)
    with np.errstate(all="ignore"):  # what does not fit is seen below, or is infinite among the model's own floats
        made = found.astype(wanted, casting="unsafe") if found.dtype.kind in "biuf" else found
    if made is found or (wanted.kind in "biu" and not np.array_equal(made, found)):
        raise InvalidInput(f"{where} is {spec.datatype}, and the {type(value).__name__} given holds something else")
    return made


def dtype_hint(signature: ModelSignature, inputs: Mapping[str, Any]) -> str:
    """What to do about arrays of another number type than the model takes; "" when there is none."""
    from trilith.core.tensor import NUMPY_OF, DataType

    for spec in signature.inputs:
        if spec.datatype is DataType.BF16:
            continue
        dtype = getattr(inputs.get(spec.name), "dtype", None)
        wanted = NUMPY_OF[spec.datatype]
        if dtype is not None and dtype != wanted and getattr(dtype, "kind", "") in "biuf" and wanted.kind in "biuf":
            return f"give {spec.name}.astype(np.{wanted.name})"
    return ""
