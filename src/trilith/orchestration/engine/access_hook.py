"""Asks the user's access function, which is a service like others, who a caller is.

Rule 1: closed when in doubt. What is no identity is no access: an error, a time limit that passed, a process that died.
Rule 2: what is remembered is remembered by all that the function is told, but for what names one request and no
    caller (`_OF_ONE_REQUEST`, the port that it came from); and only when somebody asked for that. A refusal is never
    remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from trilith.core.identity import AccessRequest, Identity
from trilith.errors import NoReadyReplica, ServiceError, TrilithError, Unauthenticated
from trilith.net.transport import Buffer
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.router import Router
from trilith.wire.calls import pack_call

_MOST_REMEMBERED: Final = 10_000
_OF_ONE_REQUEST: Final = frozenset({"content-length", "traceparent", "tracestate", "x-request-id"})
_NONE: Final[dict[str, str]] = {}


class _Asked(msgspec.Struct, frozen=True):
    """The arguments of the access service's method."""

    request: AccessRequest


class AccessHook:
    """Asks, and remembers for `cache_s` seconds.

    Attributes:
        route: of the access service; None before the application is known.
    """

    def __init__(self, router: Router, *, cache_s: float) -> None:
        self.route: MethodRoute | None = None
        self._router = router
        self._cache_s = cache_s
        self._known: OrderedDict[bytes, tuple[float, Identity]] = OrderedDict()

    def remembered(self, request: AccessRequest) -> tuple[bytes, Identity | None]:
        """Under what an answer is remembered (b"" when none is), and who it is if that is known."""
        if not self._cache_s:
            return b"", None
        headers = {name: value for name, value in request.headers.items() if name not in _OF_ONE_REQUEST}
        decides = msgspec.structs.replace(request, headers=headers, client=request.client.rpartition(":")[0])
        key = hashlib.sha256(msgspec.msgpack.encode(decides)).digest()
        found = self._known.get(key)
        if found is None or found[0] <= time.monotonic():
            return key, None
        return key, found[1]

    async def ask(self, request: AccessRequest, *, request_id: str, key: bytes) -> Identity:
        """Who it is.

        Raises:
            TrilithError: nobody, or nobody can say.
        """
        route = self.route
        if route is None:
            raise NoReadyReplica("the application is not loaded yet; try again in a moment")
        identity = await self._call(route, request, request_id)
        if identity is None:
            raise Unauthenticated("this server does not know who you are: its access function says so")
        if key:
            self._known[key] = time.monotonic() + self._cache_s, identity
            self._known.move_to_end(key)
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        return identity

    async def _call(self, route: MethodRoute, request: AccessRequest, request_id: str) -> Identity | None:
        now = time.monotonic()
        sink = _Sink(asyncio.get_running_loop().create_future())
        call = PendingCall(
            route,
            pack_call(
                *(route.service, route.method, "application/json", request_id, _NONE),
                trace=False,
                query="",
                client=request.client,
                identity=request.certificate,
            ),
            (msgspec.json.encode(_Asked(request)),),
            received_at=now,
            submitted_at=now,
            deadline=now + route.timeout_s,
            sink=sink,
            trace=False,
        )
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)
        try:
            return await sink.answered
        except asyncio.CancelledError:
            self._router.cancel(call)
            raise


class _Sink:
    """Takes what the access function said."""

    __slots__ = ("answered",)

    def __init__(self, answered: asyncio.Future[Identity | None]) -> None:
        self.answered = answered

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """It said something."""
        if self.answered.done():
            return
        try:
            self.answered.set_result(msgspec.json.decode(b"".join(buffers), type=Identity | None))
        except msgspec.MsgspecError as error:
            raise ServiceError(f"the access function's answer cannot be read: {error}") from error

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """It failed."""
        if not self.answered.done():
            self.answered.set_exception(error)
