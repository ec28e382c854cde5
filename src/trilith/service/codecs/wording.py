"""What is wrong in a JSON body in one wording, whichever library found it: that of pydantic, which users know.

Field required - at `$.order`
Extra inputs are not permitted - at `$.sise`
Input should be a valid integer - at `$.numbers[2]`
"""

from __future__ import annotations

import re
from typing import Any, Final

from trilith.service.codecs.native import Buffer

_WORDS: Final = {
    "int": "a valid integer",
    "float": "a valid number",
    "str": "a valid string",
    "bool": "a valid boolean",
    "array": "a valid array",
    "object": "an object",
    "null": "null",
}
_FIELD: Final = re.compile(r"Object (?:missing required|(contains unknown)) field `(.*?)`(?: - at `(.*)`)?")
_KIND: Final = re.compile(r"Expected `([^`]*)`, got `[^`]*`(?: - at `(.*)`)?")


_HIGH_ALONE: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def no_json(error: object, body: Buffer) -> str:
    """Why a body could not be read: in the words of who could not, save of half a pair, which it takes for an end."""
    text = str(error)
    if "surrogate" in text or (_HIGH_ALONE.search(body) and ("truncated" in text or "hex escape" in text)):
        return "half of a surrogate pair (\\ud800 to \\udfff) is no character by itself"
    return text


def missing(name: str, place: str = "$") -> str:
    """A value that there is not."""
    return f"Field required - at `{place}.{name}`"


def unknown(name: str, place: str = "$") -> str:
    """A value that nobody asked for."""
    return f"Extra inputs are not permitted - at `{place}.{name}`"


def unfit(wanted: str, place: str = "$") -> str:
    """A value of another kind. `wanted`: kinds of JSON as msgspec writes them, `int | null`."""
    kinds = wanted.split(" | ")
    return f"Input should be {' or '.join(_WORDS.get(kind, kind) for kind in kinds)} - at `{place}`"


def of_msgspec(error: Any) -> str:
    """What one of msgspec's errors says; other sentences of it stay as they are."""
    text = str(error)
    field = _FIELD.fullmatch(text)
    if field is not None:
        say = unknown if field[1] else missing
        return say(field[2], field[3] or "$")
    kind = _KIND.fullmatch(text)
    return text if kind is None else unfit(kind[1], kind[2] or "$")
