"""`pb_utils.Logger` and `pb_utils.MetricFamily`: what a model says and counts beside its answers.

Rule: the process tells the runtime, through the one `Outlet` that the worker sets; in a program of its own (a unit
test) there is none, and lines go to `logging`. Every text is cut before it leaves.
"""

from __future__ import annotations

import enum
import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from trilith.core.foreign import foreign_text, shortened
from trilith.runtime.backends.python.messages import Counted, Declared, Message, Said
from trilith.runtime.backends.python.pb_utils.errors import TritonModelException

_log: Final = logging.getLogger("triton_python_backend_utils")
_LONGEST_NAME: Final = 256
_LONGEST_LABEL: Final = 1024
_MOST_LABELS: Final = 64
_MOST_BUCKETS: Final = 1000
_LEVELS: Final = {"info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR, "verbose": logging.DEBUG}


class Outlet:
    """The way to the runtime. `tell` may be called from any thread."""

    tell: Callable[[Message], None] | None = None


class LogLevel(enum.Enum):
    """Levels of `Logger.log`."""

    INFO = "info"
    WARNING = "warn"
    ERROR = "error"
    VERBOSE = "verbose"


_Level: TypeAlias = LogLevel  # in `Logger` the name is an attribute


class Logger:
    """Writes to the server's log. Its levels are named on it too: `logger.log("text", logger.INFO)`."""

    LogLevel: ClassVar = LogLevel
    INFO: ClassVar = _Level.INFO
    WARNING: ClassVar = _Level.WARNING
    ERROR: ClassVar = _Level.ERROR
    VERBOSE: ClassVar = _Level.VERBOSE

    @staticmethod
    def log(message: str, level: _Level = _Level.INFO) -> None:
        """Writes a line."""
        if Outlet.tell is None:
            _log.log(_LEVELS[level.value], "%s", message)
        else:
            Outlet.tell(Said(level=level.value, text=shortened(foreign_text(message))))

    @staticmethod
    def log_info(message: str) -> None:
        """Writes a line of level INFO."""
        Logger.log(message, _Level.INFO)

    @staticmethod
    def log_warn(message: str) -> None:
        """Writes a line of level WARNING."""
        Logger.log(message, _Level.WARNING)

    @staticmethod
    def log_error(message: str) -> None:
        """Writes a line of level ERROR."""
        Logger.log(message, _Level.ERROR)

    @staticmethod
    def log_verbose(message: str) -> None:
        """Writes a line of level VERBOSE."""
        Logger.log(message, _Level.VERBOSE)


class MetricKind(enum.Enum):
    """Kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


COUNTER: Final = MetricKind.COUNTER
GAUGE: Final = MetricKind.GAUGE
HISTOGRAM: Final = MetricKind.HISTOGRAM


class Metric:
    """One series. Made by `MetricFamily.Metric`."""

    def __init__(self, family: MetricFamily, labels: Mapping[str, str], buckets: Sequence[float]) -> None:
        self._family = family
        self._labels = {
            shortened(foreign_text(key), _LONGEST_NAME): shortened(foreign_text(value), _LONGEST_LABEL)
            for key, value in labels.items()
        }
        self._bounds = [float(bound) for bound in buckets]
        self._counts = [0] * (len(self._bounds) + 1)
        self._value = 0.0
        self._tell("make", 0.0)

    def increment(self, value: float) -> None:
        """Adds `value`.

        Raises:
            TritonModelException: to a counter, and negative; or the metric is a histogram.
        """
        kind = self._family.kind
        if kind is MetricKind.HISTOGRAM:
            raise TritonModelException("increment: a histogram is observed")
        if kind is MetricKind.COUNTER and value < 0:
            raise TritonModelException(f"increment: a counter only grows, got {value}")
        self._value += value
        self._tell("add", value)

    def set(self, value: float) -> None:
        """Sets a gauge.

        Raises:
            TritonModelException: the metric is no gauge.
        """
        if self._family.kind is not MetricKind.GAUGE:
            raise TritonModelException(f"set: a {self._family.kind.value} cannot be set")
        self._value = float(value)
        self._tell("set", value)

    def observe(self, value: float) -> None:
        """Counts one observation of a histogram.

        Raises:
            TritonModelException: the metric is no histogram.
        """
        if self._family.kind is not MetricKind.HISTOGRAM:
            raise TritonModelException(f"observe: a {self._family.kind.value} cannot be observed")
        self._counts[bisect_left(self._bounds, value)] += 1
        self._tell("observe", value)

    def value(self) -> float:
        """What this instance of the model made of it.

        Raises:
            TritonModelException: a histogram has no one value.
        """
        if self._family.kind is MetricKind.HISTOGRAM:
            raise TritonModelException("value: a histogram has no one value")
        return self._value

    def _tell(self, change: str, value: float) -> None:
        if Outlet.tell is not None:
            Outlet.tell(
                Counted(
                    name=self._family.name,
                    labels=self._labels,
                    change=change,
                    value=float(value),
                    buckets=self._bounds if change == "make" else [],
                )
            )


class MetricFamily:
    """All series of one name, in the server's `/metrics`.

    Args:
        name: as it appears there.
        description: one sentence.
        kind: `MetricFamily.COUNTER`, `GAUGE` or `HISTOGRAM`.
    """

    COUNTER = MetricKind.COUNTER
    GAUGE = MetricKind.GAUGE
    HISTOGRAM = MetricKind.HISTOGRAM

    def __init__(self, name: str, description: str, kind: MetricKind = MetricKind.COUNTER) -> None:
        self.name = shortened(foreign_text(name), _LONGEST_NAME)
        self.kind = kind
        if Outlet.tell is not None:
            help = shortened(foreign_text(description), _LONGEST_LABEL)
            Outlet.tell(Declared(name=self.name, kind=kind.value, help=help))

    def Metric(self, labels: Mapping[str, str] | None = None, buckets: Sequence[float] | None = None) -> Metric:
        """One series of the family.

        Raises:
            TritonModelException: labels or buckets are not of that form.
        """
        for key, value in dict[Any, Any](labels or {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TritonModelException(f"Metric: label {key!r:.200} must be text, got {value!r:.200}")
        if len(labels or {}) > _MOST_LABELS:
            raise TritonModelException(f"Metric: expected at most {_MOST_LABELS} labels, got {len(labels or {})}")
        bounds = list(buckets or [])
        if len(bounds) > _MOST_BUCKETS:
            raise TritonModelException(f"Metric: expected at most {_MOST_BUCKETS} buckets, got {len(bounds)}")
        if (self.kind is MetricKind.HISTOGRAM) != bool(bounds):
            raise TritonModelException("Metric: buckets are what a histogram needs, and no other kind takes them")
        if bounds != sorted(set(bounds)):
            raise TritonModelException(f"Metric: buckets must ascend, got {bounds}")
        return Metric(self, labels or {}, bounds)
