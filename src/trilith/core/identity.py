"""Who a caller is, as whoever checked it says."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A caller.

    Attributes:
        name: of the key, of the certificate, or what the access function says.
        kind: how it was known: by an API key, by a TLS certificate, by an access function.
        claims: what else is known of it, JSON's own types.
    """

    name: str
    kind: Literal["key", "certificate", "access"] = "access"
    claims: dict[str, Any] = {}
