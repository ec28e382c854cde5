"""How a client reaches its server: what its caller said, and what of that is none."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig
from trilith.service.client.duplex import DuplexServer
from trilith.service.client.heads import checked_headers

_CERTIFICATES_OF_THE_ENVIRONMENT: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How a server is reached.

    Attributes:
        headers: sent with each request, in addition to the client's own.
        tls_ca: PEM file of the authorities that are trusted; None for those that SSL_CERT_FILE or SSL_CERT_DIR name, or
            else the public ones.
        tls_certificate: PEM file with the certificate chain that the client shows.
        tls_key: PEM file with its private key; None when the certificate's file has it.
        connections: how many calls may be under way at a time.
        websockets: calls whose items go both ways at once go over one.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    tls_ca: str | Path | None = None
    tls_certificate: str | Path | None = None
    tls_key: str | Path | None = None
    connections: int = 100
    websockets: bool = False

    def checked(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        """The headers, by name in lower case, and what TLS is made with; None for what is usual.

        Raises:
            InvalidConfig: a file cannot be read, or is no PEM file; a header is none; there may be no connection.
        """
        if type(self.connections) is not int or self.connections < 1:
            raise InvalidConfig(f"connections: expected a whole number from 1, got {self.connections!r}")
        return checked_headers(self.headers), self._tls()

    def both_ways(self, server: DuplexServer) -> DuplexServer:
        """Where calls with items both ways go, when those with items one way go to `server`."""
        if not self.websockets:
            return server
        from trilith.service.client.sockets import SocketServer  # and wsproto, for who asks for it

        return SocketServer(url=server.url, headers=server.headers, tls=server.tls, places=server.places)

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_key is not None and self.tls_certificate is None:
            raise InvalidConfig("tls_key needs tls_certificate: the key's certificate")
        named = any(os.environ.get(name) for name in _CERTIFICATES_OF_THE_ENVIRONMENT)
        if self.tls_ca is None and self.tls_certificate is None and not named:
            return None
        try:
            # Without a file the context reads the environment's variables, or the system's authorities.
            context = ssl.create_default_context(cafile=None if self.tls_ca is None else str(self.tls_ca))
        except (OSError, ssl.SSLError) as error:
            raise InvalidConfig(f"tls_ca: {self.tls_ca}: no PEM file with certificates: {error}") from error
        if self.tls_certificate is not None:
            key = None if self.tls_key is None else str(self.tls_key)
            try:
                context.load_cert_chain(str(self.tls_certificate), key)
            except (OSError, ssl.SSLError) as error:
                pair = f"{self.tls_certificate}" if key is None else f"{self.tls_certificate} and {key}"
                raise InvalidConfig(f"tls_certificate: {pair}: no certificate with its key: {error}") from error
        return context
