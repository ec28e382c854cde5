"""Tracebacks that begin with the author's own frames: the way there, through Trilith, is left out."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Final

_TRILITH: Final = str(Path(__file__).parents[1]) + "/"
_NOT_THE_AUTHORS: Final = ("<", _TRILITH, *(f"{sysconfig.get_path(one)}/" for one in ("purelib", "platlib", "stdlib")))


def own_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error without the frames of Trilith and of other libraries at its beginning.

    Without those of Trilith alone where no frame is the author's; all of it when there are no others. Frames further in
    stay: where the author's code called a library, and that raised, both are of interest.
    """
    whole = error.__traceback__
    return _first_outside(whole, _NOT_THE_AUTHORS) or _first_outside(whole, _TRILITH) or whole


def _first_outside(trace: TracebackType | None, places: str | tuple[str, ...]) -> TracebackType | None:
    """The rest of a traceback from its first frame that is of none of those places; None when there is none."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(places):
        trace = trace.tb_next
    return trace


def is_authors(filename: str) -> bool:
    """Whether a file is neither ours nor a library's."""
    return not filename.startswith(_NOT_THE_AUTHORS)


def has_foreign_frames(error: BaseException) -> bool:
    """Whether an error, or one that it came from, passed through code that is no library's: the author's own."""
    found: BaseException | None = error
    while found is not None:
        if _first_outside(found.__traceback__, _NOT_THE_AUTHORS) is not None:
            return True
        found = found.__cause__ or found.__context__
    return False
