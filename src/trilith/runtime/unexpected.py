"""A mistake of ours where requests run: they are answered all the same, the log says why, and the instance goes on.

Rule: what a model raises is no such thing; `execution.py` and the backends make a `ModelError` of it.
"""

from __future__ import annotations

import logging
from typing import Final

from trilith.errors import Bug, TrilithError

RETRY_S: Final = 0.1
"""After so long an instance asks again whose queue gave an error instead of a batch."""

_log: Final = logging.getLogger("trilith.runtime")


def unexpected(what: str, error: BaseException) -> TrilithError:
    """Logs the error with its traceback; returns what callers are told.

    Args:
        what: failed: `running a batch of model 'ocr'`.
        error: that was raised.
    """
    if isinstance(error, TrilithError) and not isinstance(error, Bug):
        return error
    _log.error("%s failed unexpectedly", what, exc_info=error)
    return Bug(f"{what} failed unexpectedly; the server's log says more")
