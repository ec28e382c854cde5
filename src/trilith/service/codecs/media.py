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


def media_type(content_type: str) -> str:
    """`application/json` of `Application/JSON; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Whether a media type is JSON, under its own name or another's."""
    return media == JSON or media.endswith("+json") or media == "text/json"


def preferred(accept: str | None, offered: Sequence[str]) -> str:
    """The content type to answer with: the offered one that `Accept` weighs highest, else the first.

    A caller that accepts none of them gets the first: an answer of another type says more than a refusal.
    """
    found = best(accept, offered)
    return offered[0] if found is None else found
