"""Whether what a block printed is what the page says. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_WIDTH = re.compile(r"[ \t─━]+")  # columns of tables are as wide as the longest cell, which a page cannot know


def text_matches(expected: str, printed: str) -> bool:
    """Equality of lines, but for widths of gaps; `...` in the expected text matches anything."""
    parts = [re.escape(part) for part in _lines(expected).split("...")]
    return re.fullmatch(".*?".join(parts), _lines(printed), re.DOTALL) is not None


def json_matches(expected: str, printed: str) -> bool:
    """Equality as JSON; the text `"..."` in the expected one matches any value."""
    try:
        return _same(json.loads(expected), json.loads(printed))
    except ValueError:
        return False


def _lines(text: str) -> str:
    return "\n".join(_WIDTH.sub(" ", line).strip() for line in text.strip().splitlines())


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
