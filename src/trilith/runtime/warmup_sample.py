"""What a model is run with before it serves: values only. `warmup` runs it."""

from __future__ import annotations

from dataclasses import dataclass

from trilith.core.tensor import DataType
from trilith.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupInput:
    """One input of a sample.

    Attributes:
        name: the input.
        datatype: its datatype.
        dims: its shape without the batch dimension.
        random: whether its values are random; else they are zero, or those of the file.
        filename: a file in the folder `warmup` of the model with its raw values, little-endian; "" for none.
    """

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    random: bool = False
    filename: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupSample:
    """One run.

    Attributes:
        name: for messages.
        rows: rows of the batch; 1 for a model without a batch dimension.
        count: how often it is run.
        inputs: what it is run with.
    """

    name: str
    rows: int
    count: int
    inputs: tuple[WarmupInput, ...]

    def __post_init__(self) -> None:
        for tensor in self.inputs:
            if any(size < 0 for size in tensor.dims):
                raise InvalidConfig(
                    f"model_warmup: sample '{self.name}': dims of '{tensor.name}' must be >= 0, got {list(tensor.dims)}"
                )
            if "/" in tensor.filename or "\\" in tensor.filename or tensor.filename in (".", ".."):
                raise InvalidConfig(
                    f"model_warmup: sample '{self.name}': input_data_file must be the name of a file in the model's "
                    f"folder `warmup`, got {tensor.filename!r}"
                )
