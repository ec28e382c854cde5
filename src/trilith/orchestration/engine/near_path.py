"""Which path was meant by one at which there is nothing. Pure.

Rule: anybody may ask for any path, so little is compared: short paths, and with few others.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

_LONGEST: Final = 48
_MOST: Final = 32


def near_path(path: str, known: Collection[str]) -> str:
    """The known path that differs by a slash at the end, by case, or by a slip; "" for none."""
    plain = path.rstrip("/").lower()
    if not plain:
        return ""
    same = next((other for other in known if other.rstrip("/").lower() == plain), "")
    if same or len(path) > _LONGEST or len(known) > _MOST:
        return same
    return next(iter(difflib.get_close_matches(plain, known, n=1, cutoff=0.75)), "")
