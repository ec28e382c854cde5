"""What a client says of a server that it does not reach, or whose connection broke."""

from __future__ import annotations

from trilith.errors import NoReadyReplica, ReplicaLost, TrilithError
from trilith.service.client.retries import not_begun


def not_connected(url: str, why: str) -> TrilithError:
    """The error of a call for which there is no connection."""
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return NoReadyReplica(
            f"the certificate of {url} is not trusted: {why}; name the file of its authority by tls_ca=, or in the "
            "environment variable SSL_CERT_FILE"
        )
    if "CERTIFICATE_REQUIRED" in why:
        return _wants_certificate(url)
    if "SSL" in why:
        plain = url.replace("https://", "http://", 1)
        return NoReadyReplica(f"no TLS connection to {url}: {why}; if the server speaks plain HTTP, write {plain}")
    return not_begun(NoReadyReplica(f"nothing answers at {url}: {why}; is the server running?"))


def lost(url: str, why: str) -> TrilithError:
    """The error of a call whose connection broke."""
    if "CERTIFICATE_REQUIRED" in why:
        return _wants_certificate(url)
    return ReplicaLost(f"the connection to {url} broke before the answer was there: {why}")


def _wants_certificate(url: str) -> NoReadyReplica:
    return NoReadyReplica(f"{url} lets in only clients with a certificate: give tls_certificate= and tls_key=")
