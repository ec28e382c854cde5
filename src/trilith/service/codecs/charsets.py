"""Text in the charset that its sender names.

Rule: only charsets are read that the rest of the world has too: Python's own ways to write text are none.
"""

from __future__ import annotations

import codecs
from typing import Final

from trilith.errors import InvalidInput, UnsupportedMediaType

_NO_CHARSETS: Final = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"})
_SHOWN: Final = 50


def is_utf8(charset: str) -> bool:
    """Whether a charset is UTF-8, or a part of it; "" is."""
    return not charset or _name(charset) in ("utf-8", "ascii")


def decoded(raw: bytes, charset: str) -> str:
    """The text of bytes.

    Args:
        raw: the text.
        charset: as a content type names it; "" for UTF-8.

    Raises:
        UnsupportedMediaType: there is no such charset.
        InvalidInput: it is no text in it.
    """
    name = _name(charset) if charset else "utf-8"
    try:
        return raw.decode(name)
    except ValueError as error:
        raise InvalidInput(f"expected text in {name.upper()}: {str(error)[:200]}") from error


def _name(charset: str) -> str:
    try:
        found = codecs.lookup(charset)
        if found.name in _NO_CHARSETS or not found._is_text_encoding:
            raise LookupError(charset)
    except (LookupError, ValueError) as error:
        raise UnsupportedMediaType(f"there is no charset {charset[:_SHOWN]!r}") from error
    return found.name
