"""Pillow decodes compressed TIFF files by libtiff, which writes what a file has done wrong to the process's stderr.

Rule: a client does not get to write our log. Pillow's exception says that the file is broken; that is what he is told.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from typing import Final

_log: Final = logging.getLogger(__name__)


@functools.cache
def quiet_libtiff(linked: str) -> None:
    """Takes away libtiff's two handlers of messages, in the whole process.

    Args:
        linked: the loaded library that is linked to it (the one that Pillow brings, not another one of the process).
    """
    try:
        library = ctypes.CDLL(linked)  # loaded already: a handle to it, whose symbols include those of what it needs
        for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
            set_handler = getattr(library, name)
            set_handler.argtypes, set_handler.restype = (ctypes.c_void_p,), ctypes.c_void_p
            set_handler(None)
    except (OSError, AttributeError) as error:  # a Pillow without libtiff, or one that hides it
        _log.debug("libtiff's messages stay as they are: %s", error)
