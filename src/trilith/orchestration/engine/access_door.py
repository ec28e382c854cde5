"""Before anything is done for a request: may it pass? Asks the desk, and tells it when the request is over.

Rule 1: a refused request costs a hash and an answer: its body is not read, and it takes no slot, queue or replica.
Rule 2: what opened the door is told to nobody behind it: headers with a key are taken off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from trilith.core.identity import Identity
from trilith.errors import TrilithError, Unauthenticated
from trilith.net.grpc import GrpcCall
from trilith.net.http1 import HttpApp, HttpRequest
from trilith.orchestration.access import AccessDesk, Need, asked_of_grpc, asked_of_http
from trilith.runtime.protocol import model_at

MethodAt = Callable[[str], str]
"""The method of a service at a path, `Ocr.read`; "" for none."""

_AUTHORIZATION: Final = b"authorization"
_API_KEY: Final = b"x-api-key"
_KEY_HEADERS: Final = frozenset((_AUTHORIZATION, _API_KEY))
_BEARER: Final = b"bearer "
_CHALLENGE: Final = ((b"www-authenticate", b'Bearer realm="trilith"'),)
_WRONG_KEY: Final = ((b"www-authenticate", b'Bearer realm="trilith", error="invalid_token"'),)


class HttpDoor:
    """An application that hands on what may pass.

    Args:
        app: answers it.
        desk: knows who may; None lets pass everybody, and says who has a certificate.
        method_at: which methods there are.
    """

    def __init__(self, app: HttpApp, desk: AccessDesk | None, method_at: MethodAt) -> None:
        self._app = app
        self._desk = desk
        self._method_at = method_at

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers a request, now or later."""
        certificate = request.client_certificate
        if self._desk is None:
            request.identity = certificate_identity(certificate)
            return self._app(request)
        asked = asked_of_http(request.path, self._method_at, model_at)
        if asked.need is not Need.NOTHING:
            key = shown_key(request.headers)
            try:
                grant = self._desk.admit(
                    asked,
                    key,
                    certificate_names(certificate),
                    body_bytes=request.content_length,
                    now=time.monotonic(),
                    wall=time.time(),
                )
            except TrilithError as error:
                challenge = _CHALLENGE if key is None else _WRONG_KEY
                request.respond_error(error, headers=challenge if isinstance(error, Unauthenticated) else ())
                return None
            request.identity = grant.identity or certificate_identity(certificate)
            request.body_limit = grant.max_body_bytes
            request.on_end = grant.release
        request.headers = [field for field in request.headers if field[0] not in _KEY_HEADERS]
        return self._app(request)


class GrpcDoor:
    """What a gRPC server asks with the head of each call. See `HttpDoor` for the arguments."""

    def __init__(self, desk: AccessDesk | None, method_at: MethodAt) -> None:
        self._desk = desk
        self._method_at = method_at

    def admit(self, call: GrpcCall) -> None:
        """Lets a call pass.

        Raises:
            TrilithError: it may not.
        """
        certificate = call.peer_certificate
        if self._desk is None:
            call.identity = certificate_identity(certificate)
            return
        asked = asked_of_grpc(call.path.decode("latin-1"), self._method_at)
        grant = self._desk.admit(
            asked,
            shown_key(call.metadata),
            certificate_names(certificate),
            body_bytes=None,
            now=time.monotonic(),
            wall=time.time(),
        )
        call.identity = grant.identity or certificate_identity(certificate)
        call.hidden = _KEY_HEADERS
        call.message_limit = grant.max_body_bytes
        call.allows_model = grant.allows_model
        call.on_end = grant.release


def shown_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The key in the headers of a request: `authorization: Bearer KEY`, else `x-api-key: KEY`; None without one."""
    found: bytes | None = None
    for name, value in headers:
        if name == _AUTHORIZATION and value[: len(_BEARER)].lower() == _BEARER:
            return value[len(_BEARER) :].strip()
        if name == _API_KEY and found is None:
            found = value.strip()
    return found


def certificate_names(certificate: Mapping[str, Any] | None) -> list[str]:
    """The names in a TLS certificate, as `ssl.SSLSocket.getpeercert` gives it: its subject's common one first."""
    if not certificate:
        return []
    subject = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    return subject + [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI", "email")]


def certificate_identity(certificate: Mapping[str, Any] | None) -> Identity | None:
    """Who a client is by its certificate; None without one, or without a name in it."""
    names = certificate_names(certificate)
    return Identity(name=names[0], kind="certificate", claims={"names": names}) if names else None
