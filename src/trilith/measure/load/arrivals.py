"""When the requests of an open loop are due: seconds after the start, in ascending order. Pure.

Rule 1: a schedule knows nothing of the server. What it answers, and when, changes no instant: that is what makes the
        loop open.
Rule 2: chance is an argument (`uniform`), so that one seed gives one schedule.
Rule 3: instants are multiples or sums from the start; an error of rounding does not grow into a drift of the rate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from trilith.errors import InvalidConfig


def constant(rate_per_s: float) -> Iterator[float]:
    """Evenly spaced: 0, 1/rate, 2/rate ...

    Raises:
        ValueError: the rate is not above 0.
    """
    _check(rate_per_s)
    return (number / rate_per_s for number in itertools.count())


def poisson(rate_per_s: float, uniform: Callable[[], float]) -> Iterator[float]:
    """Independent callers: the gaps are exponential with mean 1/rate.

    Args:
        rate_per_s: mean number of requests a second.
        uniform: draws from [0, 1).

    Raises:
        ValueError: the rate is not above 0.
    """
    _check(rate_per_s)
    return itertools.accumulate(-math.log(1.0 - uniform()) / rate_per_s for _ in itertools.count())


def replay(times_s: Sequence[float], *, speed: float = 1.0) -> Iterator[float]:
    """The instants of a recording, again and again: behind the last comes the first, after one mean gap.

    Args:
        times_s: ascending; the first is taken as the start.
        speed: 2.0 replays twice as fast.

    Raises:
        ValueError: there is no instant, one is before its predecessor, or the speed is not above 0.
    """
    if not times_s or any(later < earlier for earlier, later in itertools.pairwise(times_s)):
        raise ValueError("expected at least one instant, and each at or after the one before it")
    _check(speed)
    first, length = times_s[0], times_s[-1] - times_s[0]
    round_s = length * len(times_s) / (len(times_s) - 1) if length else 1.0
    return ((number * round_s + instant - first) / speed for number in itertools.count() for instant in times_s)


def mean_rate(times_s: Sequence[float], *, speed: float = 1.0) -> float:
    """Requests a second of a recording that is replayed."""
    length = times_s[-1] - times_s[0]
    return speed * ((len(times_s) - 1) / length if length else len(times_s))


def read_recording(text: str, where: str) -> tuple[float, ...]:
    """Instants in seconds, one a line; or, behind a first line `interval_us`, gaps in microseconds between requests.

    Further columns behind a comma, blank lines and lines that begin with # are passed over. The gaps are what
    perf_analyzer's --request-intervals reads.

    Args:
        text: of the file.
        where: names the file in an error.

    Raises:
        InvalidConfig: a line is no number, the instants do not ascend, or there is none.
    """
    lines = [(number, line.split(",")[0].strip()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    gaps = bool(lines) and lines[0][1] == "interval_us"
    values: list[float] = []
    for number, line in lines[1:] if gaps else lines:
        try:
            value = float(line)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or (gaps and value < 0) or (not gaps and values and value < values[-1]):
            expected = "a gap in microseconds" if gaps else "a time in seconds that is not before the last one"
            raise InvalidConfig(f"{where}, line {number}: expected {expected}, got {line!r}")
        values.append(value)
    if not values:
        raise InvalidConfig(f"{where}: expected a send time in seconds on each line, got no line")
    return tuple(itertools.accumulate((gap / 1e6 for gap in values), initial=0.0)) if gaps else tuple(values)


def _check(rate_per_s: float) -> None:
    if not rate_per_s > 0:
        raise ValueError(f"expected a number above 0, got {rate_per_s}")
