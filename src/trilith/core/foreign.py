"""Texts that someone else's code brings: of an exception, a log line, a name.

Rule 1: an exception's class is theirs, so whatever making its text raises (`SystemExit` too) is caught here.
Rule 2: what comes out is a plain `str` that every encoding takes.
Rule 3: a text that travels is bounded; what was cut says how much was left out.
"""

from __future__ import annotations

from typing import Final

LONGEST_TEXT: Final = 16_384
"""Characters of an error's message or of a log line of someone else's code that are passed on."""


def error_text(error: BaseException) -> str:
    """What `str(error)` says, or that it cannot be said. Never raises."""
    return foreign_text(error)


def foreign_text(value: object) -> str:
    """What `str(value)` says, or that it cannot be said. Never raises."""
    try:
        text = str.__str__(str(value))  # a subclass of `str` may raise wherever it is used
    except BaseException as broken:  # noqa: BLE001  the user's class: whatever its `__str__` raises
        return f"(its text raised {type(broken).__name__})"
    return text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent


def named_error(error: BaseException) -> str:
    """Its class and its text: `ValueError: not a number`. Never raises."""
    return f"{type(error).__name__}: {error_text(error)}"


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, or its first `longest` characters and how many were left out."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}... ({len(text) - longest} characters more are left out)"
