"""What is promised to callers: a share of the requests, answered well within a time. Pure.

One definition serves goodput, a verdict and the search: of all requests that were due, those answered well and in time.
A failure and a missing answer are misses like a late one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from trilith.errors import InvalidConfig

_STANDARD_ERRORS: Final = 3.0
_UNITS_S: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_FORM: Final = re.compile(r"(?:p(\d{1,2}(?:\.\d+)?)\s*[=<:]\s*)?(.+)")
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s|m|h|)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """A promise: `share` (0 to 1) of the requests is answered well within `limit_s` seconds."""

    limit_s: float
    share: float = 0.99

    @classmethod
    def parse(cls, text: str, option: str = "--slo") -> Slo:
        """Reads `80ms` (of 99 in a hundred) or `p95=80ms`.

        Raises:
            InvalidConfig: it is neither.
        """
        match = _FORM.fullmatch(text.strip())
        limit_s = parse_time_s(match[2]) if match else None
        share = float(match[1]) / 100 if match and match[1] else 0.99
        if not limit_s or not 0 < share < 1:
            raise InvalidConfig(f"{option} {text!r}: expected a time like 80ms, or a percentile and one like p95=80ms")
        return cls(limit_s=limit_s, share=share)

    @property
    def name(self) -> str:
        """The percentile: `p99`."""
        return f"p{self.share * 100:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SloResult:
    """How a level did by an `Slo`.

    Attributes:
        slo: the promise.
        good: requests answered well and in time.
        of: requests that count.
        goodput_per_s: `good` a second.
    """

    slo: Slo
    good: int
    of: int
    goodput_per_s: float

    @property
    def good_share(self) -> float:
        """Share of the requests that were answered well and in time; 0 when there were none."""
        return self.good / self.of if self.of else 0.0

    @property
    def met(self) -> bool:
        """Whether the promise was kept."""
        return self.of > 0 and self.good >= self.slo.share * self.of

    @property
    def clear(self) -> bool:
        """Whether chance does not explain it: further than three standard errors of a binomial count from it."""
        expected = (1 - self.slo.share) * self.of
        beyond = abs(self.of - self.good - expected)
        return beyond > _STANDARD_ERRORS * math.sqrt(expected * self.slo.share)

    @property
    def enough(self) -> bool:
        """Whether there were so many requests that the promise allows a miss: fewer do not show that it is kept."""
        return self.of * (1 - self.slo.share) >= 1 - 1e-9


def parse_time_s(text: str) -> float | None:
    """Seconds of `500ms`, `5s`, `2m`, `1h`, `80us` or a number of seconds; None when it is none of them."""
    match = _TIME.fullmatch(text.strip())
    return float(match[1]) * _UNITS_S[match[2]] if match else None
