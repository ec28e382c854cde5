"""Calls into the owner's code. What it raises is logged and goes no further: it must not cost others their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

LOG: Final = logging.getLogger("trilith.transport")
CALLBACK_FAILED: Final = "a callback of a worker connection failed: %r"

_Argument = TypeVar("_Argument")


def tell(callback: Callable[[_Argument], None], argument: _Argument) -> bool:
    """Calls back with one argument; False when the callback raised."""
    try:
        callback(argument)
    except Exception:
        LOG.exception(CALLBACK_FAILED, callback)
        return False
    return True


def tell_nothing(callback: Callable[[], None]) -> None:
    """Calls back without an argument."""
    try:
        callback()
    except Exception:
        LOG.exception(CALLBACK_FAILED, callback)
