"""Who a caller is, as whoever checked it says; and what is told to a function of the user's that checks it."""

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


class AccessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that wants to pass, as an access function sees it. Its body is not among it.

    Attributes:
        method: of HTTP, `POST`; of gRPC always `POST`.
        path: raw, without the query; over gRPC `/package.Service/Method`.
        query: raw, as after the `?`; browsers can put nothing else into the address of a socket or an event stream.
        asks: the method of a service that it calls, `Ocr.read`; "" for what is none.
        headers: by name in lower case.
        client: the address that it came from, `host:port`.
        certificate: who its TLS certificate says that it is, or None.
    """

    method: str
    path: str
    query: str = ""
    asks: str = ""
    headers: dict[str, str] = {}
    client: str = ""
    certificate: Identity | None = None
