"""Tracebacks as the author of a service wants to read them: the own frames, not the way there."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path
from typing import Final

import trilith
from trilith.core.foreign import named_error
from trilith.errors import TrilithError

_ON_THE_WAY: Final = (str(Path(trilith.__file__).parent), "<frozen importlib", importlib.__file__)


def users_traceback(error: BaseException) -> str:
    """The traceback without the frames of Trilith and of the import system; all of it when nothing else is left.

    "" for a module that Trilith itself did not find: it is named already.
    """
    try:
        return _shown(error)
    except BaseException as broken:  # noqa: BLE001  the user's class: whatever its attributes raise
        return f"(the traceback of {named_error(error)} cannot be shown: reading it raised {type(broken).__name__})"


def _shown(error: BaseException) -> str:
    whole = traceback.TracebackException.from_exception(error)
    theirs = [frame for frame in whole.stack if not frame.filename.startswith(_ON_THE_WAY)]
    if not theirs and isinstance(error, ModuleNotFoundError):
        return ""
    if theirs:
        whole.stack = traceback.StackSummary.from_list(theirs)
    elif isinstance(error, SyntaxError):
        whole.stack = traceback.StackSummary.from_list([])  # the place stands in the message itself
    if isinstance(error, TrilithError):  # its sentence stands above already
        return "".join(("Traceback (most recent call last):\n", *whole.stack.format())) if theirs else ""
    return "".join(whole.format(chain=False))
