"""Tracebacks that begin with the author's own frames: the way there, through Trilith, is left out."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Final

_TRILITH: Final = str(Path(__file__).parents[1]) + "/"
_NOT_THE_AUTHORS: Final = ("<", _TRILITH, *(f"{sysconfig.get_path(one)}/" for one in ("purelib", "platlib", "stdlib")))


def own_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error without Trilith's frames at its beginning; all of it when there are no others.

    Frames further in stay: where the author's code called Trilith, and that raised, both are of interest.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_TRILITH):
        found = found.tb_next
    return error.__traceback__ if found is None else found


def has_foreign_frames(error: BaseException) -> bool:
    """Whether an error, or one that it came from, passed through code that is no library's: the author's own."""
    found: BaseException | None = error
    while found is not None:
        trace = found.__traceback__
        while trace is not None:
            if not trace.tb_frame.f_code.co_filename.startswith(_NOT_THE_AUTHORS):
                return True
            trace = trace.tb_next
        found = found.__cause__ or found.__context__
    return False
