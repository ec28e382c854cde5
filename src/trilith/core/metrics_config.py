"""What `--metrics-config` says: which of the metrics with Triton's names there are.

summary_latencies=true                  summaries of each phase of a request
summary_quantiles=0.5:0.05,0.99:0.001   which quantiles they have, each with the error that is allowed
counter_latencies=false                 no counters of time
histogram_latencies=false               no histogram of the time to the first response
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trilith.core.foreign import shortened
from trilith.errors import InvalidConfig

OPTION: Final = "--metrics-config"
_SWITCHES: Final = {"true": True, "1": True, "false": False, "0": False}
_MOST_QUANTILES: Final = 32
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Which metrics of models there are, of those with Triton's names.

    Attributes:
        counter_latencies: whether there are counters of time.
        histogram_latencies: whether there is a histogram of the time to the first response.
        summary_latencies: whether there are summaries.
        summary_quantiles: the quantiles of summaries as they were typed, with their numbers.
    """

    counter_latencies: bool = True
    histogram_latencies: bool = True
    summary_latencies: bool = False
    summary_quantiles: tuple[tuple[str, float], ...] = (
        *(("0.5", 0.5), ("0.9", 0.9), ("0.95", 0.95)),
        *(("0.99", 0.99), ("0.999", 0.999)),
    )


def read_metrics_config(settings: Iterable[str]) -> MetricsConfig:
    """Settings as they were typed, checked. The last of a name holds.

    Raises:
        InvalidConfig: one is malformed, unknown or out of its range.
    """
    switches: dict[str, bool] = {}
    quantiles = MetricsConfig().summary_quantiles
    for setting in settings:
        name, equals, value = setting.partition("=")
        where = f"{OPTION} {shortened(setting, _LONGEST)}"
        if not (name and equals and value):
            raise InvalidConfig(f"{where}: option format is '<setting>=<value>'")
        if name == "summary_quantiles":
            quantiles = _quantiles(value, where)
        elif name in ("counter_latencies", "histogram_latencies", "summary_latencies"):
            switch = _SWITCHES.get(value.lower())
            if switch is None:
                raise InvalidConfig(f"{where}: must be true or false, got {shortened(value, _LONGEST)!r}")
            switches[name] = switch
        else:
            raise InvalidConfig(
                f"{where}: there is no setting {name!r}; there is counter_latencies, histogram_latencies, "
                "summary_latencies and summary_quantiles"
            )
    return MetricsConfig(summary_quantiles=quantiles, **switches)


def _quantiles(value: str, where: str) -> tuple[tuple[str, float], ...]:
    found: dict[str, float] = {}
    for pair in value.split(","):
        quantile, _, error = pair.partition(":")
        try:
            numbers = float(quantile), float(error)
        except ValueError:
            numbers = -1.0, -1.0
        if not all(0 <= number <= 1 for number in numbers) or "_" in pair:
            raise InvalidConfig(
                f"{where}: must be pairs of a quantile and its error, each from 0 to 1, as in 0.5:0.05,0.99:0.001; "
                f"got {shortened(pair, _LONGEST)!r}"
            )
        found[quantile.strip()] = numbers[0]
    if len(found) > _MOST_QUANTILES:
        raise InvalidConfig(f"{where}: must be at most {_MOST_QUANTILES} quantiles, got {len(found)}")
    return tuple(found.items())
