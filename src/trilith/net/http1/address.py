"""An address of a socket as text."""

from __future__ import annotations


def address_text(address: object) -> str:
    """`host:port`, `[host]:port` of IPv6; "" of a UNIX socket."""
    if not isinstance(address, tuple):
        return ""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
