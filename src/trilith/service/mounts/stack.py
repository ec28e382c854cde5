"""Middleware of a service: ASGI middleware round its methods and its mounts.

    @trilith.service(middleware=[GZipMiddleware, (SessionMiddleware, {"secret_key": "..."})])

Rule 1: the first one is the outermost. Each is made once for each replica, as `Class(app, **options)`.
Rule 2: what answers is chosen by the path as it came, so that it is what access was decided by. Middleware that changes
    the path chooses anew.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

from trilith.core.context import current_context
from trilith.core.foreign import named_error
from trilith.errors import NotFound, SetupError
from trilith.service.mounts.asgi import HttpMessages, MountedAsgi, scope_of
from trilith.service.mounts.exchange_port import ExchangePort, is_socket
from trilith.service.mounts.lifespan import Lifespan
from trilith.service.mounts.method_app import MethodApp
from trilith.service.mounts.port import MountedApp
from trilith.service.mounts.relayed import RelayedExchange, RelayedSocket
from trilith.service.mounts.socket_messages import SocketMessages
from trilith.service.user_errors import USER_ERRORS
from trilith.wire.http_status import error_body


class ServiceApp:
    """All of a service as one ASGI application.

    Args:
        name: of the service.
        methods: by path.
        mounts: applications by the path of their mount.
    """

    def __init__(self, name: str, methods: Mapping[str, MethodApp], mounts: Mapping[str, MountedApp]) -> None:
        self._name = name
        self._methods = methods
        self._mounts = sorted(
            ((path.rstrip("/"), app) for path, app in mounts.items()), key=lambda mount: len(mount[0]), reverse=True
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As every ASGI application."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        path = _asked(scope)
        method = self._methods.get(path)
        if method is not None:
            await method(scope, receive, send)
            return
        for root, app in self._mounts:
            if path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
                await self._pass_on({**scope, "root_path": root}, receive, send, app)
                return
        await _not_found(scope, send, NotFound(f"{self._name} has nothing at {scope['path']}"))

    @staticmethod
    async def _pass_on(scope: Any, receive: Any, send: Any, app: MountedApp) -> None:
        if isinstance(app, MountedAsgi):
            await app(scope, receive, send)
        else:
            kind = RelayedSocket if scope["type"] == "websocket" else RelayedExchange
            await app.answer(kind(scope, receive, send))


class MountedStack:
    """A `MountedApp`: the service's application behind its middleware.

    Args:
        middleware: as it was declared.
        inner: the service's application.
        where: for messages.

    Raises:
        SetupError: one of them could not be made.
    """

    cancellable = True

    def __init__(self, middleware: Iterable[Any], inner: ServiceApp, where: str) -> None:
        app: Any = inner
        for entry in reversed(tuple(middleware)):
            made, arguments, options = parts_of(entry)
            try:
                app = made(app, *arguments, **options)
            except USER_ERRORS as error:
                name = getattr(made, "__name__", repr(made))
                raise SetupError(f"{where}: {name} could not be made: {named_error(error)}") from error
        self._app = app
        self._lifespan = Lifespan(app, where)

    async def start(self) -> None:
        """Runs what the middleware does when it starts.

        Raises:
            SetupError: that failed.
        """
        await self._lifespan.start()

    @property
    def why_not(self) -> str:
        """Why it does not work any more; "" while it does."""
        return self._lifespan.why_not

    async def answer(self, exchange: ExchangePort) -> None:
        """Answers one request."""
        state = dict(self._lifespan.state)
        messages = SocketMessages(exchange) if is_socket(exchange) else HttpMessages(exchange)
        await self._app(scope_of(exchange.head, state), messages.receive, messages.send)

    async def stop(self, timeout_s: float) -> None:
        """Runs what the middleware does when it ends."""
        await self._lifespan.stop(timeout_s)


def parts_of(entry: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What makes a middleware, and its arguments behind the application: of a class, of a class with options, and of
    Starlette's `Middleware`."""
    if isinstance(entry, tuple):
        return entry[0], (), entry[1]
    if hasattr(entry, "cls"):
        return entry.cls, tuple(getattr(entry, "args", ())), dict(getattr(entry, "kwargs", {}))
    return entry, (), {}


def _asked(scope: Any) -> str:
    """The path by which is chosen who answers: as it came, unless middleware has changed it."""
    path: str = scope["path"]
    raw: bytes = scope.get("raw_path") or b""
    came = urllib.parse.unquote_to_bytes(raw).decode("utf-8", "replace")
    return raw.decode("latin-1") if came == path else path


async def _live(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _not_found(scope: Any, send: Any, error: NotFound) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})
        return
    found = current_context.get()
    body = error_body(error, "" if found is None else found.request_id)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
