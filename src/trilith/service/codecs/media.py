"""Content types: what a header names, and which of several answers a caller would rather have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trilith.wire.accept import best

JSON: Final = "application/json"
FORM: Final = "multipart/form-data"
URLENCODED: Final = "application/x-www-form-urlencoded"
BINARY: Final = "application/octet-stream"
NPY: Final = "application/x-npy"
TEXT: Final = "text/plain"
PLAIN_TEXT: Final = "text/plain; charset=utf-8"
CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"
PARQUETS: Final = (PARQUET, "application/parquet", "application/x-parquet")
ARROW: Final = "application/vnd.apache.arrow.stream"
ARROW_FILE: Final = "application/vnd.apache.arrow.file"
ARROWS: Final = (ARROW, ARROW_FILE)
FRAMES: Final = (CSV, *PARQUETS, *ARROWS)
"""What a frame is read from and written as, JSON left out."""


def media_type(content_type: str) -> str:
    """`application/json` of `Application/JSON; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def charset(content_type: str) -> str:
    """The `charset` of a content type in lower case, "" when it has none."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""


def is_json(media: str) -> bool:
    """Whether a media type is JSON, under its own name or another's."""
    return media == JSON or media.endswith("+json") or media == "text/json"


def preferred(accept: str | None, offered: Sequence[str]) -> str:
    """The content type to answer with: the offered one that `Accept` weighs highest, else the first.

    A caller that accepts none of them gets the first: an answer of another type says more than a refusal.
    """
    found = best(accept, offered)
    return offered[0] if found is None else found


def accepted(accept: str | None, offered: Sequence[str]) -> bool:
    """Whether a caller takes one of the offered types; one that says nothing takes all."""
    return accept is None or not accept.strip() or best(accept, offered) is not None
