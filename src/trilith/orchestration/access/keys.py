"""API keys as values: who they are of, what they open, how much of it. Pure.

Rule: nothing here holds a key itself, only the SHA-256 of it. A key is 256 random bits, so that is as good as the key
for who compares, and of no use to who reads it.
"""

from __future__ import annotations

import msgspec


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a key may ask for; None for no bound of its own.

    Attributes:
        requests_per_s: on average.
        burst: how many at once, after a pause.
        concurrency: under way at a time.
        max_body_bytes: the longest body of a request, and message of a call.
    """

    requests_per_s: float | None = None
    burst: int = 1
    concurrency: int | None = None
    max_body_bytes: int | None = None


class KeyRule(msgspec.Struct, frozen=True, kw_only=True):
    """One key.

    Attributes:
        name: says whose it is, in metrics, logs and `trilith.context().identity`.
        sha256: of the key, as hexadecimal digits; "" when it is a certificate.
        certificate: the name in a client's TLS certificate that stands for a key; "" when it is none.
        scopes: what it opens; see `scopes`.
        expires_at: when it ends, in seconds since 1970; None for never.
        limits: how much it may ask for.
    """

    name: str
    sha256: str = ""
    certificate: str = ""
    scopes: tuple[str, ...]
    expires_at: float | None = None
    limits: KeyLimits = KeyLimits()


class KeyRing(msgspec.Struct, frozen=True, kw_only=True):
    """All keys of a server.

    Attributes:
        rules: the keys; no two have a name, a digest or a certificate in common.
        public: what is open without a key, as scopes.
    """

    rules: tuple[KeyRule, ...]
    public: tuple[str, ...] = ()
