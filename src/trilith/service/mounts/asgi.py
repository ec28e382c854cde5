"""An ASGI application, mounted: https://asgi.readthedocs.io/en/latest/specs/main.html, version 3.0.

Rule 1: it is served as by any ASGI server. `path` has the mount in it and `root_path` is the mount, `http.disconnect`
    comes when the client goes, and sending to a client that has gone raises an OSError (version 2.4 of its HTTP).
Rule 2: of the headers of proxies (`x-forwarded-...`) nothing is believed: `client` and `scheme` are what we see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from trilith.service.mounts.exchange import ClientGone, Phase
from trilith.service.mounts.exchange_port import ExchangePort, is_socket
from trilith.service.mounts.lifespan import Lifespan
from trilith.service.mounts.port import MountPlace
from trilith.service.mounts.socket_messages import SocketMessages
from trilith.wire.exchange import ExchangeHead

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

ASGI: Final = {"version": "3.0", "spec_version": "2.4"}


class MountedAsgi:
    """A `MountedApp`.

    Args:
        app: the application.
        place: where it is mounted.
    """

    cancellable = True

    def __init__(self, app: AsgiApp, place: MountPlace) -> None:
        self._app = app
        self._lifespan = Lifespan(app, place.where)

    async def start(self) -> None:
        """Runs what it does when it starts.

        Raises:
            SetupError: that failed.
        """
        await self._lifespan.start()

    @property
    def why_not(self) -> str:
        """Why it does not work any more; "" while it does."""
        return self._lifespan.why_not

    async def answer(self, exchange: ExchangePort) -> None:
        """Calls it for one request."""
        messages = SocketMessages(exchange) if is_socket(exchange) else HttpMessages(exchange)
        await self(scope_of(exchange.head, {}), messages.receive, messages.send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Calls it as it is called by any server; `scope` gets what it keeps for its requests."""
        scope["state"] |= self._lifespan.state
        await self._app(scope, receive, send)

    async def stop(self, timeout_s: float) -> None:
        """Runs what it does when it ends."""
        await self._lifespan.stop(timeout_s)


def scope_of(head: ExchangeHead, state: dict[str, Any]) -> dict[str, Any]:
    """The scope of a request."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": dict(ASGI),
        "http_version": head.http_version,
        "method": head.method,
        "scheme": head.scheme,
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": head.root_path,
        "headers": list(head.headers),
        "client": head.client,
        "server": head.server,
        "state": state,
        "extensions": {},
    }
    if head.websocket:
        del scope["method"]
        scope |= {
            "type": "websocket",
            "scheme": "wss" if head.scheme == "https" else "ws",
            "subprotocols": list(head.subprotocols),
            "extensions": {"websocket.http.response": {}},
        }
    return scope


class HttpMessages:
    """The two functions that an application is called with for an HTTP request."""

    __slots__ = ("_exchange", "_over")

    def __init__(self, exchange: ExchangePort) -> None:
        self._exchange = exchange
        self._over = False  # the body was received to its end

    async def receive(self) -> Message:
        """`http.request`, or `http.disconnect`."""
        exchange = self._exchange
        if self._over:
            await exchange.wait_over()
            return {"type": "http.disconnect"}
        try:
            piece = await exchange.receive()
        except ClientGone:
            return {"type": "http.disconnect"}
        self._over = piece is None or exchange.head.whole
        return {"type": "http.request", "body": piece or b"", "more_body": not self._over}

    async def send(self, message: Message) -> None:
        """Takes `http.response.start` and `http.response.body`.

        Raises:
            ClientGone: the client has gone.
            RuntimeError: another message is due.
        """
        exchange, kind = self._exchange, message["type"]
        if kind == "http.response.start":
            await exchange.start(message["status"], ((bytes(name), bytes(value)) for name, value in _pairs(message)))
        elif kind == "http.response.body":
            data = message.get("body", b"")
            if message.get("more_body", False):
                await exchange.send(data)
            else:
                await exchange.finish(data)
        elif exchange.phase is not Phase.FINISHED or not kind.startswith("http.response."):
            raise RuntimeError(
                f"an ASGI application sent {kind!r}; an HTTP request is answered by http.response.start"
                " and http.response.body"
            )


def _pairs(message: Message) -> Any:
    return message.get("headers", ())
