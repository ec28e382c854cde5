"""The head of a request as a client writes it (RFC 9110, sections 5.5 and 5.6.2; RFC 9112). Sans-I/O.

Rule: what would end a line early, or say another length than the body has, is refused: it would be another request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_TARGET: Final = re.compile(r"[!-~]+")
_FRAMING: Final = ("content-length", "transfer-encoding", "upgrade")


def header_fault(name: object, value: object) -> str:
    """What is wrong with a header that a caller gave, as the end of a sentence; "" for nothing."""
    if not isinstance(name, str) or not isinstance(value, str):
        return f"expected names and values of text, got {name!r}: {_shown(value)}"
    if not _NAME.fullmatch(name):
        return f"{name!r} is no name of a header: letters, digits and !#$%&'*+-.^_`|~ make one (RFC 9110)"
    if name.lower() in _FRAMING:
        return f"{name!r} is not for callers: it says how a message is sent, and each is sent in a way of its own"
    if not _VALUE.fullmatch(value):
        return (
            f"the value of {name!r} is none: printable ASCII, with spaces and tabs only between it, makes one, without"
            f" line breaks (RFC 9110); got {_shown(value)}"
        )
    return ""


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Request line and headers.

    Raises:
        ValueError: one of them cannot be sent.
    """
    if not _TARGET.fullmatch(target):
        raise ValueError(f"the path {target[:200]!r} cannot be sent")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} cannot be sent: {_shown(value)}")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")


def _shown(value: object) -> str:
    """A value may be a secret: no more of it than what is wrong."""
    if not isinstance(value, str):
        return f"a value of type {type(value).__name__}"
    wrong = sorted({character for character in value if not " " <= character <= "~"})
    return f"{''.join(wrong)[:20]!r} in it" if wrong else "spaces at an end of it"
