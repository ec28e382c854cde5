"""What a process logs, and how, as a value. Pure: `logs` does it."""

from __future__ import annotations

from typing import Literal

import msgspec

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is logged, and how.

    Attributes:
        level: the least level that is.
        format: lines for people, or one JSON object a line.
        access: each answered request is a line too.
    """

    level: LogLevel = "info"
    format: LogFormat = "text"
    access: bool = False
