"""TLS contexts for servers."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from trilith.errors import InvalidConfig


def tls_context(
    certificate: str | Path,
    key: str | Path,
    *,
    client_ca: str | Path | None = None,
    protocols: Sequence[str] = ("http/1.1",),
) -> ssl.SSLContext:
    """A server's context: TLS 1.2 and 1.3.

    Args:
        certificate: PEM file of the server's certificate and its chain.
        key: PEM file of its private key, not encrypted.
        client_ca: PEM file of the authorities whose clients are let in; None asks for no client certificate.
        protocols: the application protocols offered (ALPN), preferred first.

    Raises:
        InvalidConfig: a file cannot be read, or the key is not that of the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfig(f"cannot use TLS certificate {certificate} with key {key}: {error}") from error
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise InvalidConfig(f"cannot use TLS client authorities {client_ca}: {error}") from error
    return context
