"""The address of a server as a person writes it."""

from __future__ import annotations

from urllib.parse import urlsplit

from trilith.errors import InvalidConfig


def path_hint(url: str) -> str:
    """A path is right where a proxy adds one. Mostly it is that of a method."""
    parts = urlsplit(url)
    if not parts.path:
        return ""
    server = f"{parts.scheme}://{parts.netloc}"
    return f". Without the path it is trilith.client({server!r}), whose methods are the paths"


def server_address(url: str) -> str:
    """The server's address, made whole.

    Raises:
        InvalidConfig: it is none.
    """
    whole = url if "://" in url else f"http://{url}"
    parts = urlsplit(whole)
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no port
        usable = False
    if not usable or parts.query or parts.fragment or any(mark.isspace() for mark in whole):
        raise InvalidConfig(f"trilith.client takes the address of a server, like http://127.0.0.1:8000, got {url!r}")
    return whole.rstrip("/")
