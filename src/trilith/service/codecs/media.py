"""Content types: what a header names, and which of several answers a caller would rather have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
    if accept is None or not accept or accept == "*/*":
        return offered[0]
    best, best_weight = offered[0], 0.0
    for candidate in offered:
        weight = _weight(accept, candidate)
        if weight > best_weight:
            best, best_weight = candidate, weight
    return best


def _weight(accept: str, candidate: str) -> float:
    found, precision = 0.0, -1
    for entry in accept.split(","):
        media, _, parameters = entry.partition(";")
        media = media.strip().lower()
        if media == candidate:
            matched = 2
        elif media.endswith("/*") and candidate.startswith(media[:-1]):
            matched = 1
        elif media == "*/*":
            matched = 0
        else:
            continue
        if matched > precision:
            found, precision = _quality(parameters), matched
    return found


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
