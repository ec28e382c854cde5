"""Numbers in messages: as a person writes them. `1e+06` is nothing that anybody gave."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

_MOST_DIGITS: Final = 1e15


def plain_number(number: float) -> str:
    """All digits of a number, without an exponent; one of 1e15 or more, or not finite, as Python writes it."""
    if not math.isfinite(number) or abs(number) >= _MOST_DIGITS:
        return str(number)
    text = format(Decimal(repr(float(number))), "f")
    return text.removesuffix(".0")
