"""Which of several content types a client would rather have: the `Accept` header. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def best(accept: str | None, offered: Sequence[str]) -> str | None:
    """The offered content type that `Accept` weighs highest, the first of equals; None: it accepts none of them.

    Without a header, or with an empty one, it is the first.
    """
    if accept is None or not accept or accept == "*/*":
        return offered[0]
    found, best_weight = None, 0.0
    for candidate in offered:
        weight = _weight(accept, candidate.partition(";")[0])
        if weight > best_weight:
            found, best_weight = candidate, weight
    return found


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
