"""Tracebacks as the author of a service wants to read them: the own frames, not the way there."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

import trilith

_OURS: Final = str(Path(trilith.__file__).parent)


def users_traceback(error: BaseException) -> str:
    """The traceback without the frames of Trilith and of the import system; all of it when nothing else is left."""
    whole = traceback.TracebackException.from_exception(error)
    theirs = [frame for frame in whole.stack if not frame.filename.startswith((_OURS, "<frozen importlib"))]
    if theirs:
        whole.stack = traceback.StackSummary.from_list(theirs)
    elif isinstance(error, SyntaxError):
        whole.stack = traceback.StackSummary.from_list([])  # the place stands in the message itself
    return "".join(whole.format(chain=False))
