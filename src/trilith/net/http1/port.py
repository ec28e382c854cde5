"""What a request needs of its connection, and a server of its connections: HTTP/1.1 and HTTP/2 fill both ports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from trilith.errors import TrilithError
from trilith.net.held_bytes import ConnectionShare
from trilith.net.http1.outbound import Buffer, Outbound
from trilith.wire.http1 import HttpLimits, ResponseHeads

if TYPE_CHECKING:
    from trilith.net.http1.late_body import LateBody
    from trilith.net.http1.request import HttpRequest
    from trilith.net.http1.state import AnswerHeaders, ErrorForm, ServerState

Head = Any
"""The head of an answer as its protocol writes it: made by `heads`, handed to `send_answer` or `begin_answer`."""


class Heads(Protocol):
    """Makes the heads of answers; see `ResponseHeads` for the arguments."""

    def sized(
        self,
        status: int,
        content_type: bytes,
        size: int,
        request_id: str,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        keep: bool,
        http10: bool,
    ) -> Head:
        """The head of an answer of known length."""
        ...

    def unsized(
        self,
        status: int,
        content_type: bytes,
        request_id: str,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        keep: bool,
        http10: bool,
    ) -> Head:
        """The head of an answer of unknown length."""
        ...


class HttpSink(Protocol):
    """The way from a request back to its client."""

    @property
    def peer(self) -> str:
        """The client's address."""
        ...

    @property
    def local(self) -> str:
        """The server's own end, as `peer`."""
        ...

    @property
    def secure(self) -> bool:
        """Whether it is encrypted."""
        ...

    @property
    def http2(self) -> bool:
        """Whether it is HTTP/2."""
        ...

    @property
    def limits(self) -> HttpLimits:
        """The server's bounds."""
        ...

    @property
    def share(self) -> ConnectionShare:
        """What the connection holds of its requests and answers."""
        ...

    @property
    def heads(self) -> Heads:
        """Makes heads."""
        ...

    @property
    def error_form(self) -> ErrorForm:
        """How errors are told."""
        ...

    @property
    def answer_headers(self) -> AnswerHeaders | None:
        """What is said in every answer."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where all of it runs."""
        ...

    @property
    def client_certificate(self) -> Mapping[str, object] | None:
        """The client's TLS certificate."""
        ...

    @property
    def write_paused(self) -> bool:
        """Whether the client reads too slowly."""
        ...

    def will_keep(self, request: HttpRequest) -> bool:
        """Whether the connection stays open after this answer."""
        ...

    def send_continue(self) -> None:
        """Tells the client to go on and send the body."""
        ...

    def endless_body(self) -> None:
        """The body that is being read may be longer than the limit, and its client silent for any time."""
        ...

    def send_answer(self, request: HttpRequest, status: int, head: Head, body: Buffer, *, keep: bool) -> None:
        """Sends a whole answer."""
        ...

    def begin_answer(self, status: int, head: Head) -> None:
        """Sends the head of a streamed answer."""
        ...

    def send_chunk(self, chunk: bytes, *, chunked: bool) -> None:
        """Sends a piece of a streamed answer."""
        ...

    def end_answer(self, request: HttpRequest, *, last_chunk: bool, keep: bool) -> None:
        """Ends a streamed answer."""
        ...

    async def writable(self) -> None:
        """Waits until the client has read enough, or is gone."""
        ...

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the client has read enough, or is gone. For when `write_paused`."""
        ...

    def update_reading(self) -> None:
        """Holds the client back, or lets it go on, as the state of its request asks."""
        ...

    def count_aborted_stream(self) -> None:
        """A streamed answer ends in an error."""
        ...

    def abort(self) -> None:
        """Cuts the answer short, so that the client sees that it is not whole."""
        ...


class Switching(Protocol):
    """A connection of HTTP/1.1 whose client asks to go on by another protocol."""

    @property
    def heads(self) -> ResponseHeads:
        """Makes heads."""
        ...

    @property
    def state(self) -> ServerState:
        """Of its server."""
        ...

    def switch(self, request: HttpRequest, head: bytes, make: Callable[[Outbound], asyncio.Protocol]) -> bytes:
        """Answers with `head`, and hands the socket on to what `make` makes; what the client sent meanwhile."""
        ...


class ServedConnection(Protocol):
    """A connection as its server sees it."""

    @property
    def busy(self) -> bool:
        """Whether a request has begun, or an answer is not with the client yet."""
        ...

    @property
    def served(self) -> bool:
        """Whether it brought a request, some time."""
        ...

    @property
    def idle_since(self) -> float | None:
        """The monotonic instant since which it waits for a request; None while one is under way, or it closes.

        A first request whose head is not here yet is none.
        """
        ...

    @property
    def peer(self) -> str:
        """The client's address."""
        ...

    @property
    def late_body(self) -> LateBody | None:
        """The body that it is reading and that was not here at the last look; None while the server holds it back."""
        ...

    @property
    def silent_since(self) -> float | None:
        """The monotonic instant of the last message, either way, of a websocket; None of anything else."""
        ...

    def give_way(self) -> None:
        """Closes the connection, which is idle, or slow, or silent: another needs its place."""
        ...

    @property
    def in_flight(self) -> int:
        """How many answers the application owes."""
        ...

    def close_when_idle(self) -> None:
        """Takes no further request, and closes after those that have begun."""
        ...

    def give_up(self, error: TrilithError) -> None:
        """The server stops and waits no longer: what is owed is answered with `error`, then the connection closes."""
        ...

    def abort(self) -> None:
        """Cuts the connection at once."""
        ...

    def check(self, now: float) -> None:
        """Ends what has lasted too long."""
        ...
