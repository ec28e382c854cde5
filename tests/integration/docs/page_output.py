"""Whether what a block printed is what the page says. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_GAP = re.compile(r"[\s─━]+")  # columns are as wide as their longest cell, and lines wrap there: a page cannot know


def text_matches(expected: str, printed: str) -> bool:
    """Equality of words; `...` in the expected text matches anything, nothing included."""
    parts = [re.escape(part) for part in re.split(r" ?\.\.\. ?", _words(expected))]
    return re.fullmatch(".*?".join(parts), _words(printed)) is not None


def json_matches(expected: str, printed: str) -> bool:
    """Equality as JSON; the text `"..."` in the expected one matches any value."""
    try:
        return _same(json.loads(expected), json.loads(printed))
    except ValueError:
        return False


def _words(text: str) -> str:
    return _GAP.sub(" ", text).strip()


def _same(expected: Any, found: Any) -> bool:
    if expected == "...":
        return True
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and expected.keys() == found.keys()
            and all(_same(value, found[key]) for key, value in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(_same, expected, found))
    return type(expected) is type(found) and bool(expected == found)
