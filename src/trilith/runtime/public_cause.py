"""Why something failed, as strangers may know it: what helps whoever asked, and nothing of this machine. Pure.

Rule 1: the first line alone. What follows are tracebacks, and what a process wrote before it died.
Rule 2: of a path the part within the model's folder is told, of any other path its last name.
Rule 3: whole texts go to the log, which is for those who run the server.
"""

from __future__ import annotations

import re
from typing import Final

MOST_CHARACTERS: Final = 500
_PATH: Final = re.compile(r"(?<![\w.:/*-])/(?:[^\s/'\"`:;,()<>\[\]{}|=]+/?)+")
_LAST_WORDS: Final = re.compile(r"; its last words were:?\s*$")


def public_cause(text: str, model: str = "") -> str:
    """A cause without what only the server's own people need to know.

    Args:
        text: the whole cause.
        model: the name of the model that it is about; "" for none.
    """
    line = _LAST_WORDS.sub("", text.strip().partition("\n")[0].rstrip())

    def within(found: re.Match[str]) -> str:
        parts = [part for part in found[0].split("/") if part]
        if model in parts:
            return "/".join(parts[len(parts) - 1 - parts[::-1].index(model) :])
        return parts[-1]

    shown = _PATH.sub(within, line)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]} ..."
