"""`reshape` of Triton's configurations: clients see one shape of a tensor, its model another. Pure.

Rule 1: shapes are without the batch dimension, -1 for any size, as `dims` in a configuration.
Rule 2: the n-th free dimension outside is the n-th inside, and the rest has as many elements on both sides: so a
    tensor keeps its elements in their order, whatever its free dimensions are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trilith.errors import InvalidConfig


@dataclass(frozen=True, slots=True)
class Reshape:
    """How one tensor is reshaped.

    Attributes:
        outside: what clients send, or get.
        inside: what the model gets, or gives; may be empty where clients have one element.

    Raises:
        InvalidConfig: they do not hold the same elements.
    """

    outside: tuple[int, ...]
    inside: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.outside.count(-1) != self.inside.count(-1):
            raise InvalidConfig(
                f"has a different number of variable-size dimensions for dims {list(self.outside)} and reshape "
                f"{list(self.inside)}"
            )
        if _fixed(self.outside) != _fixed(self.inside):
            raise InvalidConfig(f"has different size for dims {list(self.outside)} and reshape {list(self.inside)}")

    def inward(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in which the model gets a tensor of these dims, which fit `outside`."""
        return _filled(self.inside, self.outside, dims)

    def outward(self, dims: tuple[int, ...]) -> tuple[int, ...] | None:
        """The shape in which clients get a tensor of these dims; None when they do not fit `inside`."""
        fits = len(dims) == len(self.inside) and all(
            wanted in (-1, size) for wanted, size in zip(self.inside, dims, strict=True)
        )
        return _filled(self.outside, self.inside, dims) if fits else None


def _fixed(dims: tuple[int, ...]) -> int:
    return math.prod(size for size in dims if size != -1)


def _filled(shape: tuple[int, ...], of: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    free = iter([size for wanted, size in zip(of, dims, strict=True) if wanted == -1])
    return tuple(next(free) if size == -1 else size for size in shape)
