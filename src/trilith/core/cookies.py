"""Cookies (RFC 6265 and its successor, 6265bis): those that a client sends, and one that an answer sets.

Rule 1: what a client sends may be anything: what is no cookie is left out, and the first of a name counts.
Rule 2: what a service sets is refused unless every browser keeps it as it is meant.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from trilith.core.header_fields import TOKEN
from trilith.errors import ServiceError

SameSite = Literal["strict", "lax", "none"]

_OCTETS: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")
_PATH: Final = re.compile(r"/[\x20-\x3a\x3c-\x7e]*")
_DOMAIN: Final = re.compile(r"\.?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_MOST_BYTES: Final = 4096  # what browsers keep of name and value together
_LONGEST_S: Final = 400 * 24 * 3600  # browsers cut what is longer
_EPOCH: Final = "Thu, 01 Jan 1970 00:00:00 GMT"  # for who does not know Max-Age


def read_cookies(header: str) -> dict[str, str]:
    """The cookies of a `cookie` header by name. Quotes round a value are taken off; nothing else is decoded."""
    found: dict[str, str] = {}
    for piece in header.split(";"):
        name, equals, value = piece.strip(" \t").partition("=")
        name, value = name.rstrip(" \t"), value.strip(" \t")
        if not equals or not TOKEN.fullmatch(name.encode("latin-1", "replace")):
            continue
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        found.setdefault(name, value)
    return found


def cookie_text(
    name: object,
    value: object,
    *,
    max_age_s: int | None,
    path: str,
    domain: str | None,
    secure: bool,
    http_only: bool,
    same_site: SameSite,
) -> str:
    """The value of a `set-cookie` header.

    Args:
        name: a token; `__Host-` and `__Secure-` at its beginning mean what browsers mean by them.
        value: printable ASCII without spaces, quotes, commas, semicolons and backslashes.
        max_age_s: seconds for which it is kept, 0 to have it removed; None: until the browser is closed.
        path: paths that begin so get it.
        domain: this host and those below it get it; None: the host that sets it alone.
        secure: it travels over TLS only.
        http_only: scripts of a page do not see it.
        same_site: whether requests that other sites cause bring it.

    Raises:
        ServiceError: a browser would not keep it as it is meant.
    """
    if not isinstance(name, str) or not TOKEN.fullmatch(name.encode("utf-8", "replace")):
        raise ServiceError(f"the name of a cookie must be a token (letters, digits, '-', '_'), got {name!r:.100}")
    if not isinstance(value, str) or not _OCTETS.fullmatch(value):
        raise ServiceError(
            f"the value of the cookie {name!r} must be printable ASCII without spaces, quotes, commas, semicolons and"
            f" backslashes, got {type(value).__name__}: encode it, with base64.urlsafe_b64encode for example"
        )
    if len(name) + len(value) > _MOST_BYTES:
        raise ServiceError(
            f"the cookie {name!r} has {len(name) + len(value)} bytes, and browsers keep {_MOST_BYTES}: keep the data on"
            " the server, and its key in the cookie"
        )
    if not _PATH.fullmatch(path):
        raise ServiceError(f"the path of the cookie {name!r} must begin with '/', without ';', got {path!r:.100}")
    if domain is not None and not _DOMAIN.fullmatch(domain):
        raise ServiceError(f"the domain of the cookie {name!r} must be a host name, got {domain!r:.100}")
    if same_site not in ("strict", "lax", "none"):
        raise ServiceError(f"same_site of the cookie {name!r} must be 'strict', 'lax' or 'none', got {same_site!r:.40}")
    if same_site == "none" and not secure:
        raise ServiceError(f"the cookie {name!r} with same_site='none' must be secure: browsers drop it otherwise")
    if name.startswith("__Secure-") and not secure:
        raise ServiceError(f"the cookie {name!r} must be secure: that is what its prefix says")
    if name.startswith("__Host-") and not (secure and path == "/" and domain is None):
        raise ServiceError(f"the cookie {name!r} must be secure, of path '/' and without domain: so says its prefix")
    if max_age_s is not None and (type(max_age_s) is not int or not 0 <= max_age_s <= _LONGEST_S):
        raise ServiceError(
            f"max_age_s of the cookie {name!r} must be a whole number of seconds from 0 to {_LONGEST_S} (400 days),"
            f" got {max_age_s!r:.40}"
        )
    parts = [f"{name}={value}", f"Path={path}"]
    if max_age_s is not None:
        parts.append(f"Max-Age={max_age_s}")
    if max_age_s == 0:
        parts.append(f"Expires={_EPOCH}")
    if domain is not None:
        parts.append(f"Domain={domain}")
    if secure:
        parts.append("Secure")
    if http_only:
        parts.append("HttpOnly")
    parts.append(f"SameSite={same_site.capitalize()}")
    return "; ".join(parts)
