"""Which pages of other origins may call this server (CORS, as https://fetch.spec.whatwg.org says). Pure.

Rule 1: a browser asks first (a preflight) where a page could do harm, and hides answers that do not name its origin. So
every answer names it, whatever its status: a page that is not told that it was refused cannot say why.
Rule 2: this protects people who browse, not the server: who is no browser sends what it likes. Access is checked apart.
Rule 3: an origin is named only where it is listed. With credentials `*` would let any page act for who is logged in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from trilith.core.header_fields import TOKEN
from trilith.errors import Forbidden, InvalidConfig

Fields = tuple[tuple[bytes, bytes], ...]

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:\*\.)?(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_EXPOSED: Final = ("x-request-id", "retry-after", "trilith-timeline", "trilith-timeline-at")
_ANY: Final = "*"
_LONGEST_S: Final = 86_400  # browsers cut what is longer
_PREFIX: Final = b"access-control-"
_MOST_SHOWN: Final = 100


class CorsPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What pages of other origins may do. See `cors_policy` for the check.

    Attributes:
        origins: `https://example.org`, `https://*.example.org` for all hosts below it, `*` for all, `null` for pages
            without one.
        methods: what they may ask by.
        headers: what they may send, in lower case; `*` for all.
        exposed: headers of answers that they may read, beside those that every page may.
        credentials: whether cookies and the like are sent along.
        max_age_s: seconds for which a browser need not ask again.
    """

    origins: tuple[str, ...]
    methods: tuple[str, ...] = _METHODS
    headers: tuple[str, ...] = (_ANY,)
    exposed: tuple[str, ...] = _EXPOSED
    credentials: bool = False
    max_age_s: int = 600

    def allows(self, origin: str) -> bool:
        """Whether pages of that origin may read answers."""
        return any(_matches(pattern, origin) for pattern in self.origins)

    def answer(self, origin: bytes | None) -> Fields:
        """What every answer says to a request of that origin (its `origin` header; None without one)."""
        any_origin = _ANY in self.origins
        vary = () if any_origin else ((b"vary", b"origin"),)
        if origin is None or not self.allows(origin.decode("latin-1")):
            return vary
        named = b"*" if any_origin else origin
        credentials = ((b"access-control-allow-credentials", b"true"),) if self.credentials else ()
        exposed = ((b"access-control-expose-headers", _listed(self.exposed)),) if self.exposed else ()
        return ((b"access-control-allow-origin", named), *credentials, *exposed, *vary)

    def preflight(self, origin: bytes, method: bytes, headers: bytes | None) -> Fields:
        """What the answer to a preflight says beside that, when the page may ask.

        Args:
            origin, method, headers: the preflight's `origin`, `access-control-request-method` and, if there is one,
                `access-control-request-headers`.

        Raises:
            Forbidden: it may not; the message says what it lacks.
        """
        page, by = origin.decode("latin-1"), method.decode("latin-1")
        if not self.allows(page):
            raise Forbidden(f"pages of {page[:_MOST_SHOWN]} may not call this server: its origin is no --cors-origin")
        if by not in self.methods:
            raise Forbidden(f"pages of other origins may not ask by {by[:_MOST_SHOWN]}: it is no --cors-method")
        wanted = [name.strip().lower() for name in (headers or b"").split(b",") if name.strip()]
        for name in wanted:
            shown = name[:_MOST_SHOWN].decode("latin-1")
            if not TOKEN.fullmatch(name):
                raise Forbidden(f"{shown!r} in access-control-request-headers is no header's name")
            if _ANY not in self.headers and shown not in self.headers:
                raise Forbidden(f"pages of other origins may not send the header {shown}: it is no --cors-header")
        return (
            (b"access-control-allow-methods", _listed(self.methods)),
            *(((b"access-control-allow-headers", b", ".join(wanted)),) if wanted else ()),
            (b"access-control-max-age", b"%d" % self.max_age_s),
            (b"vary", b"access-control-request-method, access-control-request-headers"),
        )


def check_websocket_origin(policy: CorsPolicy | None, origin: bytes | None, host: bytes | None) -> None:
    """Whether a page may open a websocket. A browser does not ask before, and lets the page read what comes.

    Args:
        policy: of pages of other origins; None where there is none.
        origin, host: the headers of the handshake; who is no browser sends no `origin`.

    Raises:
        Forbidden: it is a page of another host, and no `--cors-origin`.
    """
    if origin is None:
        return
    page = origin.decode("latin-1")
    if _is_of_host(page.lower(), (host or b"").decode("latin-1").lower()) or (
        policy is not None and policy.allows(page)
    ):
        return
    raise Forbidden(
        f"pages of {page[:_MOST_SHOWN]} may not open websockets here: it is not this server's own origin, and no"
        " --cors-origin"
    )


def _is_of_host(origin: str, host: str) -> bool:
    """Whether it is the same host and port. A proxy may have taken the TLS off, so the scheme only says the port."""
    scheme, _, where = origin.partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme)
    return bool(host and port) and where.removesuffix(str(port)) == host.removesuffix(str(port))


def without_cors(fields: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
    """The headers of an answer without those that say what pages may do: they are the policy's."""
    if any(name.lower().startswith(_PREFIX) for name, _ in fields):
        return [field for field in fields if not field[0].lower().startswith(_PREFIX)]
    return fields


def cors_policy(
    *,
    origins: Sequence[str],
    methods: Sequence[str],
    headers: Sequence[str],
    exposed: Sequence[str],
    credentials: bool,
    max_age_s: int,
) -> CorsPolicy | None:
    """The policy that a person asked for; None when no origin is named.

    Args:
        origins, methods, headers, exposed, credentials, max_age_s: see `CorsPolicy`; empty for its defaults, and
            `exposed` is beside them.

    Raises:
        InvalidConfig: a value is none, or they contradict each other.
    """
    if not origins:
        given = {"--cors-method": methods, "--cors-header": headers, "--cors-expose-header": exposed}
        given["--cors-credentials"] = ("",) if credentials else ()
        for option, values in given.items():
            if values:
                raise InvalidConfig(f"{option} needs --cors-origin: which pages are meant?")
        return None
    for origin in origins:
        if origin not in (_ANY, "null") and not _ORIGIN.fullmatch(origin):
            raise InvalidConfig(
                "--cors-origin must be what a browser calls an origin, as https://example.org or http://localhost:3000"
                " (lower case, no path, no slash at the end), https://*.example.org for all hosts below it, or '*',"
                f" got {origin!r:.100}"
            )
    if credentials and _ANY in origins:
        raise InvalidConfig(
            "--cors-credentials with --cors-origin '*' would let every page in the world act for whoever is logged in:"
            " name the origins"
        )
    for option, values in (("--cors-method", methods), ("--cors-header", headers), ("--cors-expose-header", exposed)):
        for value in values:
            if not TOKEN.fullmatch(value.encode("utf-8")):
                raise InvalidConfig(f"{option} must be a name, got {value!r:.100}")
    if not 0 <= max_age_s <= _LONGEST_S:
        raise InvalidConfig(f"--cors-max-age-s must be from 0 to {_LONGEST_S}, got {max_age_s}")
    defaults = CorsPolicy(origins=())
    return CorsPolicy(
        origins=tuple(origins),
        methods=tuple(method.upper() for method in methods) or defaults.methods,
        headers=tuple(header.lower() for header in headers) or defaults.headers,
        exposed=(*defaults.exposed, *(header.lower() for header in exposed if header.lower() not in defaults.exposed)),
        credentials=credentials,
        max_age_s=max_age_s,
    )


def _matches(pattern: str, origin: str) -> bool:
    if pattern in (_ANY, origin):
        return True
    scheme, star, below = pattern.partition("://*.")
    if not star or not origin.startswith(f"{scheme}://"):
        return False
    host = origin[len(scheme) + 3 :]
    return host.endswith(f".{below}") and _ORIGIN.fullmatch(origin) is not None


def _listed(words: Sequence[str]) -> bytes:
    return ", ".join(words).encode("latin-1")
