"""Tracebacks that begin with the author's own frames: the way there, through Trilith, is left out."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

_TRILITH: Final = str(Path(__file__).parents[1]) + "/"


def own_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error without Trilith's frames at its beginning; all of it when there are no others.

    Frames further in stay: where the author's code called Trilith, and that raised, both are of interest.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_TRILITH):
        found = found.tb_next
    return error.__traceback__ if found is None else found
