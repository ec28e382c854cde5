"""Which argument or output of a PyTorch model a configured name means, by the conventions of Triton's PyTorch backend.

Convention 1: the name is that of an argument of `forward`, or a key of the outputs.
Convention 2: the name ends in `__N`, and means the N-th: `INPUT__0`, `OUTPUT__1`.
Convention 3: else, if no name follows the second, they stand in the order of the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trilith.errors import InvalidConfig

_NUMBERED: Final = re.compile(r"__(\d+)$")


def positions(model: str, role: str, configured: Sequence[str], own: Sequence[str]) -> tuple[int, ...]:
    """The position of each configured name.

    Args:
        model: the model's name, for the message.
        role: `input` or `output`, for the message.
        configured: names of the configuration, in order.
        own: the model's own names, in order.

    Raises:
        InvalidConfig: a name means no position, or two the same.
    """
    found = _positions(configured, own)
    wrong = [name for name, at in zip(configured, found, strict=True) if at >= len(own)]
    if wrong or len(set(found)) != len(found):
        about = f"'{wrong[0]}' is none of them" if wrong else "two names mean the same one"
        raise InvalidConfig(
            f"model '{model}': unexpected {role} '{(wrong or list(configured))[0]}', the model's {role}s are: "
            f"{', '.join(own)}; {about}. Name them so, or {role.upper()}__0, {role.upper()}__1 and so on"
        )
    return found


def _positions(configured: Sequence[str], own: Sequence[str]) -> tuple[int, ...]:
    if all(name in own for name in configured):
        return tuple(own.index(name) for name in configured)
    numbers = [_NUMBERED.search(name) for name in configured]
    if all(numbers):
        return tuple(int(number[1]) for number in numbers if number is not None)
    if any(numbers):  # neither convention: the first odd one is told of
        return tuple(int(number[1]) if number is not None else len(own) for number in numbers)
    return tuple(range(len(configured)))
