"""The words with which a copy of a server is started beside it, from how the server itself was.

Rule 1: what differs from its default is a word, whatever option it is. Those that a copy has of its own are named here.
Rule 2: settings are none of them: a copy changes some, and gets all of them by their paths (`settings_by_path`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OWN: Final = frozenset(
    (
        "config",
        "drain_timeout_s",
        "grpc_port",
        "host",
        "http_port",
        "inline",
        "metrics_port",
        "reload",
        "reload_include",
        "set",
    )
)
"""Parameters of `trilith serve` that a copy does not take over."""


def copy_options(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of `trilith serve`.

    Args:
        given: the values of its keyword parameters, by name; others are passed over.
        defaults: what they are where nothing is said.
    """
    words: list[str] = []
    for name, default in defaults.items():
        value = given[name]
        if name in OWN or value == default:
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}={each}" for each in (value if isinstance(value, tuple) else (value,))]
    return tuple(words)
