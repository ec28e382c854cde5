"""What of requests is kept and traced, as values. Pure: `telemetry.data_log` and the gateway's tracer do it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from trilith.errors import InvalidConfig

_ENDPOINT: Final = re.compile(
    r"https?://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(?::([0-9]{1,5}))?(?:/[A-Za-z0-9._~/-]*)?"
)
FILES: Final = 16
"""The room for one service is divided into files of this part of it."""


class DataLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept, and where.

    Attributes:
        folder: where to; "" keeps nothing.
        sample: the part of the requests that is kept, 0 to 1, of names that `samples` does not have.
        samples: the same for single names.
        max_bytes: room for one service; the oldest makes place.
        images: pictures are kept too, as files beside the lines.
    """

    folder: str = ""
    sample: float = 1.0
    samples: dict[str, float] = {}
    max_bytes: int = 1 << 30
    images: bool = False

    def part(self, name: str) -> float:
        """The part of the requests of which `name` is kept."""
        return self.samples.get(name, self.sample)


class TraceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls are traced, and where to.

    Attributes:
        endpoint: of an OpenTelemetry collector, `http://host:4318`; "" traces nothing.
        part: of the calls whose callers do not say whether they are sampled, 0 to 1.
    """

    endpoint: str = ""
    part: float = 1.0


def checked_endpoint(url: str, option: str) -> str:
    """The address of a collector.

    Raises:
        InvalidConfig: it is none.
    """
    found = _ENDPOINT.fullmatch(url)
    if found is None or not 0 < int(found[1] or "4318") < 65536:
        raise InvalidConfig(f"{option} takes the address of a collector, like http://127.0.0.1:4318, got {url!r}")
    return url


def read_samples(texts: Iterable[str], option: str) -> tuple[float, Mapping[str, float]]:
    """The part for all names, and those for single ones: `0.1`, `scores=0.5`.

    Raises:
        InvalidConfig: one is no number from 0 to 1.
    """
    default, single = 1.0, {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            part = float(number)
        except ValueError:
            part = math.nan
        if not 0 <= part <= 1 or (equals and not name):
            raise InvalidConfig(f"{option} takes a part from 0 to 1, as 0.1 or NAME=0.1, got {text!r}")
        if name:
            single[name] = part
        else:
            default = part
    return default, single
