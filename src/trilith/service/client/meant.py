"""What a client takes from elsewhere than its arguments, and what was meant by arguments that it has not."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from typing import Final

API_KEY: Final = "TRILITH_API_KEY"
"""The variable of the environment with the key that servers are shown; a header that says one holds before it."""

_KEY_HEADERS: Final = ("authorization", "x-api-key")
_BEARER: Final = "headers={'authorization': f'Bearer {key}'}, or the environment variable TRILITH_API_KEY"
_MEANT: Final = {
    "token": _BEARER,
    "api_key": _BEARER,
    "key": _BEARER,
    "auth": _BEARER,
    "timeout": "timeout_s",
    "verify": "tls_ca",
    "cert": "tls_certificate",
    "async_": "asynchronous",
    "is_async": "asynchronous",
    "max_connections": "connections",
    "max_retries": "retries",
}


def with_key(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, with the key of the environment when they have none."""
    key = os.environ.get(API_KEY, "")
    if not key or any(str(name).lower() in _KEY_HEADERS for name in headers):
        return headers
    return {**headers, "authorization": f"Bearer {key}"}


def unknown_options(given: Iterable[str], known: list[str]) -> str:
    """What to say of options of `trilith.client` that there are not."""
    said = []
    for name in given:
        near = difflib.get_close_matches(name, known, n=1)
        meant = _MEANT.get(name, near[0] if near else "")
        said.append(f"{name!r} (did you mean {meant}?)" if meant else repr(name))
    return f"trilith.client has no option {', '.join(said)}; it has {', '.join(known)}"
