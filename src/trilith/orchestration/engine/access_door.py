"""Before anything is done for a request: may it pass? Asks the desk, and tells it when the request is over.

Rule 1: a refused request costs a hash and an answer: its body is not read, and it takes no slot, queue or replica.
Rule 2: what opened the door is told to nobody behind it: headers with a key are taken off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from trilith.core.identity import AccessRequest, Identity
from trilith.errors import Bug, TrilithError, Unauthenticated
from trilith.net.grpc import Answer, GrpcApp, GrpcCall
from trilith.net.http1 import HttpApp, HttpRequest
from trilith.orchestration.access import AccessDesk, Asked, Grant, Need, asked_of_grpc, asked_of_http
from trilith.orchestration.engine.access_hook import AccessHook
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
        desk: knows the keys; None where there are none.
        hook: is asked about who has no key; None where nobody is.
        method_at: which methods there are.
    """

    def __init__(self, app: HttpApp, desk: AccessDesk | None, hook: AccessHook | None, method_at: MethodAt) -> None:
        self._app = app
        self._desk = desk
        self._hook = hook
        self._method_at = method_at

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers a request, now or later."""
        certificate = request.client_certificate
        request.identity = certificate_identity(certificate)
        desk, hook = self._desk, self._hook
        if desk is None and hook is None:
            return self._app(request)
        asked = asked_of_http(request.path, self._method_at, model_at)
        if asked.need is Need.NOTHING:
            return self._app(_without_key(request))
        grant: Grant | None = None
        key = shown_key(request.headers)
        if desk is not None:
            try:
                grant = desk.admit(
                    asked,
                    key,
                    certificate_names(certificate),
                    body_bytes=request.content_length,
                    now=time.monotonic(),
                    wall=time.time(),
                    asks=hook is not None,
                )
            except TrilithError as error:
                request.identity = desk.identity_of(key, certificate_names(certificate)) or request.identity
                _refuse(request, error, key)
                return None
        if grant is not None:
            request.identity = grant.identity or request.identity
            request.body_limit = grant.max_body_bytes
            request.on_end = grant.release
            return self._app(_without_key(request))
        if hook is None:
            raise Bug(f"nobody decides about {request!r}")
        return self._ask(hook, request, asked)

    def _ask(self, hook: AccessHook, request: HttpRequest, asked: Asked) -> Coroutine[Any, Any, None] | None:
        seen = AccessRequest(
            method=request.method,
            path=request.path,
            query=request.query,
            asks=asked.method,
            headers=joined_headers(request.headers),
            client=request.peer,
            certificate=request.identity,
        )
        key, identity = hook.remembered(seen)
        if identity is None:
            return self._ask_first(hook, request, seen, key)
        request.identity = identity
        return self._app(request)

    async def _ask_first(self, hook: AccessHook, request: HttpRequest, seen: AccessRequest, key: bytes) -> None:
        try:
            request.identity = await hook.ask(seen, request_id=request.request_id, key=key)
        except TrilithError as error:
            _refuse(request, error, None)
            return
        ended = asyncio.Event()
        request.on_end = ended.set
        answer = self._app(request)
        if answer is not None:
            await answer
        elif not request.finished:
            await ended.wait()


class GrpcDoor:
    """What a gRPC server asks with the head of each call, and what it calls then. See `HttpDoor` for the arguments."""

    def __init__(self, desk: AccessDesk | None, hook: AccessHook | None, method_at: MethodAt) -> None:
        self._desk = desk
        self._hook = hook
        self._method_at = method_at

    def admit(self, call: GrpcCall) -> None:
        """Lets a call pass, or has it wait for who is to be asked about it.

        Raises:
            TrilithError: it may not pass.
        """
        certificate = call.peer_certificate
        call.identity = certificate_identity(certificate)
        desk, hook = self._desk, self._hook
        if desk is None and hook is None:
            return
        asked = asked_of_grpc(call.path.decode("latin-1"), self._method_at)
        if asked.need is Need.NOTHING:
            return
        grant: Grant | None = None
        if desk is not None:
            key, names = shown_key(call.metadata), certificate_names(certificate)
            try:
                grant = desk.admit(
                    asked, key, names, body_bytes=None, now=time.monotonic(), wall=time.time(), asks=hook is not None
                )
            except TrilithError:
                call.identity = desk.identity_of(key, names) or call.identity
                raise
        if grant is None:
            call.attachment = asked
            return
        call.identity = grant.identity or call.identity
        call.hidden = _KEY_HEADERS
        call.message_limit = grant.max_body_bytes
        call.allows_model = grant.allows_model
        call.on_end = grant.release

    def asking(self, app: GrpcApp) -> GrpcApp:
        """An application that asks about those calls, and hands on what may pass to `app`."""
        hook = self._hook
        if hook is None:
            return app

        def answer(call: GrpcCall) -> Answer:
            asked = call.attachment
            if not isinstance(asked, Asked):
                return app(call)
            seen = AccessRequest(
                method="POST",
                path=asked.path,
                asks=asked.method,
                headers=joined_headers(call.metadata),
                client=call.peer,
                certificate=call.identity,
            )
            key, identity = hook.remembered(seen)
            if identity is None:
                return _ask_first(hook, app, call, seen, key)
            call.identity = identity
            return app(call)

        return answer


async def _ask_first(hook: AccessHook, app: GrpcApp, call: GrpcCall, seen: AccessRequest, key: bytes) -> None:
    call.identity = await hook.ask(seen, request_id=call.request_id, key=key)
    ended = asyncio.Event()
    call.on_end = ended.set
    answer = app(call)
    if answer is not None:
        await answer
    elif not (call.answered or call.cancelled):
        await ended.wait()


def _refuse(request: HttpRequest, error: TrilithError, key: bytes | None) -> None:
    challenge = _CHALLENGE if key is None else _WRONG_KEY
    request.respond_error(error, headers=challenge if isinstance(error, Unauthenticated) else ())


def _without_key(request: HttpRequest) -> HttpRequest:
    request.headers = [field for field in request.headers if field[0] not in _KEY_HEADERS]
    return request


def joined_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; the values of one that came several times in one (RFC 9110, section 5.3)."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in found:
            value = f"{found[name]}{'; ' if name == 'cookie' else ', '}{value}"
        found[name] = value
    return found


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
