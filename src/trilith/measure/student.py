"""Student's t distribution, without a library of statistics. Pure.

The distribution function is the regularised incomplete beta function, by its continued fraction (DLMF 8.17.22,
evaluated as Lentz does); a quantile is found by halving. Good to nine digits: far more than any measurement has.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

_TINY: Final = 1e-300
_PRECISION: Final = 1e-11
_ENOUGH: Final = 1e-13
_MOST_TERMS: Final = 500


@lru_cache(maxsize=256)
def student_quantile(probability: float, degrees: float) -> float:
    """The value that Student's t with `degrees` of freedom does not exceed with `probability`.

    Raises:
        ValueError: `probability` is not between 0 and 1, or `degrees` is not above 0.
    """
    if not 0.0 < probability < 1.0 or not degrees > 0:
        raise ValueError(f"expected 0 < probability < 1 and degrees > 0, got {probability} and {degrees}")
    if probability < 0.5:
        return -student_quantile(1.0 - probability, degrees)
    low, high = 0.0, 1.0
    while student_probability(high, degrees) < probability:
        low, high = high, high * 2
        if high > 1e15:
            return high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_probability(middle, degrees) < probability else (low, middle)
    return high


def student_probability(value: float, degrees: float) -> float:
    """The probability, 0 to 1, that Student's t with `degrees` of freedom is at most `value`."""
    if degrees > 1e7:
        return 0.5 * math.erfc(-value / math.sqrt(2))
    beyond = 0.5 * _beta(degrees / 2, 0.5, degrees / (degrees + value * value))
    return 1.0 - beyond if value > 0 else beyond


def _beta(first: float, second: float, point: float) -> float:
    """The regularised incomplete beta function at `point` (0 to 1)."""
    if point <= 0.0 or point >= 1.0:
        return 0.0 if point <= 0.0 else 1.0
    front = math.exp(
        math.lgamma(first + second)
        - math.lgamma(first)
        - math.lgamma(second)
        + first * math.log(point)
        + second * math.log1p(-point)
    )
    if point < (first + 1) / (first + second + 2):
        return front * _fraction(first, second, point) / first
    return 1.0 - front * _fraction(second, first, 1.0 - point) / second


def _fraction(first: float, second: float, point: float) -> float:
    numerator, denominator = 1.0, 1.0 / _apart(1.0 - (first + second) * point / (first + 1))
    result = denominator
    for term in range(1, _MOST_TERMS):
        twice = first + 2 * term
        even = term * (second - term) * point / ((twice - 1) * twice)
        odd = -(first + term) * (first + second + term) * point / (twice * (twice + 1))
        for factor in (even, odd):
            denominator = 1.0 / _apart(1.0 + factor * denominator)
            numerator = _apart(1.0 + factor / numerator)
            result *= numerator * denominator
        if abs(numerator * denominator - 1.0) < _ENOUGH:
            break
    return result


def _apart(value: float) -> float:
    """Not zero, so that it can be divided by."""
    return value if abs(value) > _TINY else _TINY
