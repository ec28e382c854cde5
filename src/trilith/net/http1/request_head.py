"""What is known of one request: its head, where it comes from, and how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from trilith.core.identity import Identity
from trilith.errors import TrilithError
from trilith.net.http1.waiting import Listener
from trilith.wire.http1 import InboundBody, Refusal

if TYPE_CHECKING:
    from trilith.net.http1.port import HttpSink, Switching
    from trilith.net.http1.websocket_connection import WebSocketConnection

OPEN: Final = 0
STREAMING: Final = 1
ANSWERED: Final = 2
GONE: Final = 3


class RequestHead(msgspec.Struct, eq=False):  # a Struct is made in a fifth of the time: it has many fields
    """A request, and the way to answer it.

    Attributes:
        method: `GET`, `POST` ...
        path: the raw target before `?`, not percent-decoded.
        query: the raw target after `?`, or "".
        headers: (lower-case name, value) in the order received; values may hold any byte above 0x7f.
        content_length: the declared length of the body in bytes, or None.
        request_id: the client's `x-request-id` if it sent a printable one, else a new id; the answer carries it.
        received_at: the monotonic instant, in seconds, when the whole request was here, or when the application was
            called before that.
        complete: the whole body is here.
        identity: who the client is, when an application has found that out.
        body_limit: the longest body that this client may send, when that is less than the server's; None for no less.
        on_end: set by an application; called once when the request is answered to its end, or its client has gone.
        on_disconnect: set by an application that answers later without a task; called once if the client goes before.
        on_give_up: set by an application that writes a streamed answer: it ends it with this error, in the answer's own
            form, when the server stops and waits no longer. Without it such an answer is cut.
        switches: the connection, while the client asks to become a websocket (see `WebSocket`) and has no answer yet.
        websocket: what became of it.
        binary_form: set by an application: the content type of a binary answer of the models, up to how many bytes of
            it are JSON; b"" for the usual one.
    """

    _connection: HttpSink
    method: str
    path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    content_length: int | None
    request_id: str
    # For the connection.
    keep_alive: bool
    http10: bool
    _awaits_continue: bool
    queued: bool = False
    refusal: Refusal | None = None
    # How far it is.
    received_at: float = 0.0
    complete: bool = False
    identity: Identity | None = None
    body_limit: int | None = None
    on_end: Callable[[], None] | None = None
    on_disconnect: Callable[[], None] | None = None
    on_give_up: Callable[[TrilithError], None] | None = None
    switches: Switching | None = None
    websocket: WebSocketConnection | None = None
    binary_form: bytes = b""
    _body: InboundBody | None = None
    _phase: int = OPEN
    _task: asyncio.Task[None] | None = None
    _waiter: asyncio.Future[None] | Listener | None = None
    _failure: TrilithError | None = None
    _held_bytes: int = 0

    def __repr__(self) -> str:
        phase = ("open", "streaming", "answered", "gone")[self._phase]
        return f"<HttpRequest {self.request_id} {self.method} {self.path} {phase}>"

    @property
    def peer(self) -> str:
        """The client's address, `host:port`."""
        return self._connection.peer

    @property
    def local(self) -> str:
        """The address that the client called, `host:port`."""
        return self._connection.local

    @property
    def secure(self) -> bool:
        """Whether it came over TLS."""
        return self._connection.secure

    @property
    def http_version(self) -> str:
        """`1.0`, `1.1` or `2`."""
        if self._connection.http2:
            return "2"
        return "1.0" if self.http10 else "1.1"

    @property
    def max_body_bytes(self) -> int:
        """The longest body that the server takes."""
        return self._least(self._connection.limits.max_body_bytes)

    @property
    def client_certificate(self) -> Mapping[str, object] | None:
        """The verified certificate of a TLS client, as `ssl.SSLSocket.getpeercert` gives it; None without one."""
        return self._connection.client_certificate

    @property
    def answered(self) -> bool:
        """Whether an answer was given or has begun."""
        return self._phase == ANSWERED or self._phase == STREAMING

    @property
    def gone(self) -> bool:
        """Whether the client went away before the answer was complete."""
        return self._phase == GONE

    def header(self, name: bytes) -> bytes | None:
        """The first value of the header `name` (lower case), or None."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def _least(self, maximum: int) -> int:
        return maximum if self.body_limit is None else min(maximum, self.body_limit)
