"""The log of Trilith's processes: one form for all of them, on standard error.

    2026-05-04T10:11:12.345Z INFO trilith.runtime: model 'ocr' version 1 is loaded in 0.21 s    (text)
    {"time":"2026-05-04T10:11:12.345Z","level":"INFO","logger":"trilith.runtime","text":"..."}  (json)
    {..., "logger":"trilith.access","text":"...","request_id":"...","status":200,"seconds":0.01,"identity":"ann"}

Rule 1: a line begins with its time, or it goes on with what the line above it says: text of clients and models cannot
    look like a line of its own.
Rule 2: lines about single requests have budgets, one for each level, so that no client can fill a disk.
Rule 3: a line never waits for who reads it (`log_stream.py`).
Rule 4: nothing here happens at import; a program that uses Trilith as a library keeps its own logging.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from typing import Any, Final

import msgspec

from trilith.core.line_budget import LineBudget
from trilith.core.log_options import LogOptions
from trilith.core.log_stream import log_stream

ACCESS: Final = "trilith.access"
"""The logger of every answered request, where that is wanted."""

REQUESTS: Final = "trilith.requests"
"""The logger of single requests that were refused or failed."""

FIELDS: Final = "fields"
"""What a record has under this name (`extra={FIELDS: {...}}`) stands in the JSON form by itself."""

_BURST: Final = 20.0
_PER_S: Final = 1.0
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class _Applied:
    options = LogOptions()


class Accesses:
    """Whether answered requests are logged: looked at once a request."""

    on = False


def configure_logging(options: LogOptions) -> None:
    """Sets this process' logging up. For the entry points of processes."""
    _Applied.options = options
    handler = logging.StreamHandler(log_stream(sys.stderr))
    handler.setFormatter(formatter(options))
    handler.addFilter(_Budgets())
    logging.basicConfig(level=options.level.upper(), handlers=[handler], force=True)
    Accesses.on = options.access
    logging.getLogger(ACCESS).setLevel(logging.INFO if options.access else logging.NOTSET)


def applied_options() -> LogOptions:
    """How this process logs; its children do so too."""
    return _Applied.options


def formatter(options: LogOptions) -> logging.Formatter:
    """What makes a line of a record."""
    return _JsonLines() if options.format == "json" else _TextLines()


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{record.getMessage()}{_traceback(self, record)}"
        inside = "\n  ".join(_CONTROL.sub(_escaped, text).rstrip().split("\n"))
        return f"{_time(record)} {record.levelname} {record.name}: {inside}"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "text": _sendable(record.getMessage()),
            **getattr(record, FIELDS, {}),
        }
        if traceback := _traceback(self, record).lstrip("\n"):
            line["traceback"] = _sendable(traceback)
        return msgspec.json.encode(line).decode()


class _Budgets(logging.Filter):
    """Bounds the lines about requests."""

    def __init__(self) -> None:
        super().__init__()
        self._budgets: dict[int, LineBudget] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != REQUESTS:
            return True
        budget = self._budgets.setdefault(record.levelno, LineBudget(burst=_BURST, per_s=_PER_S))
        left_out = budget.take(time.monotonic())
        if left_out:
            record.msg = f"{record.getMessage()} (before it {left_out} lines of this level were left out)"
            record.args = ()
        return left_out is not None


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _traceback(form: logging.Formatter, record: logging.LogRecord) -> str:
    """That of the error that is logged, or the text of one of another process."""
    if record.exc_info and record.exc_info[0]:
        return f"\n{form.formatException(record.exc_info)}"
    return f"\n{record.exc_text}" if record.exc_text else ""


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _sendable(text: str) -> str:
    return text.encode(errors="replace").decode()
