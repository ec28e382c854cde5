"""The text of an exception that someone else's code raised.

Rule: its class is theirs, so whatever making its text raises (`SystemExit` too) is caught here, and what comes out is a
plain `str` that every encoding takes.
"""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """What `str(error)` says, or that it cannot be said. Never raises."""
    try:
        text = str.__str__(str(error))  # a subclass of `str` may raise wherever it is used
    except BaseException as broken:  # noqa: BLE001  the user's class: whatever its `__str__` raises
        return f"(its text raised {type(broken).__name__})"
    return text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent


def named_error(error: BaseException) -> str:
    """Its class and its text: `ValueError: not a number`. Never raises."""
    return f"{type(error).__name__}: {error_text(error)}"
