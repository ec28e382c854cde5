"""A connection on a transport that only remembers."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trilith.net.http1.connection import HttpConnection
from trilith.net.http1.state import HttpApp, ServerState
from trilith.wire.http1 import HttpLimits


class FakeTransport:
    """Remembers what was written; `unsent` stands for bytes that the client has not read."""

    def __init__(self) -> None:
        self.written = b""
        self.unsent = 0
        self.reading = True
        self.closed = self.aborted = self.eof = False
        self.protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, chunk: bytes) -> None:
        assert not self.closed, "a write after the close"
        self.written += chunk

    def writelines(self, chunks: tuple[bytes, ...]) -> None:
        for chunk in chunks:
            self.write(bytes(chunk))

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.1", 1234) if name == "peername" else self

    def fileno(self) -> int:
        return 5

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class FakeWatch:
    """Stands in for the epoll set."""

    def __init__(self) -> None:
        self.watched: set[object] = set()

    def watch(self, descriptor: int, owner: object) -> None:
        assert owner not in self.watched
        self.watched.add(owner)

    def unwatch(self, descriptor: int, owner: object) -> None:
        self.watched.remove(owner)


class Client:
    """The other end of one connection."""

    def __init__(self, state: ServerState, watch: FakeWatch, loop: asyncio.AbstractEventLoop) -> None:
        self.state = state
        self.watch = watch
        self.transport = FakeTransport()
        self.connection = HttpConnection(self.state)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.loop = loop

    @classmethod
    def of(cls, app: HttpApp, limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> "Client":
        """The first client of a new server."""
        state = ServerState(app, limits, loop)
        state.hangups.close()
        state.hangups = watch = FakeWatch()  # type: ignore[assignment]
        return cls(state, watch, loop)

    def another(self) -> "Client":
        """One more client of the same server."""
        return Client(self.state, self.watch, self.loop)

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)
            self.settle()

    def settle(self) -> None:
        """Lets every task run as far as it can."""
        for _ in range(10):
            self.loop.run_until_complete(asyncio.sleep(0))
        watched = self.connection in self.watch.watched
        assert watched == (not self.transport.reading and not self.transport.closed), "paused means watched"

    def at(self, seconds: float) -> None:
        """Lets the server check its times as if `seconds` had passed."""
        self.connection.check(self.state.now + seconds)
        self.settle()

    def leave(self) -> None:
        self.connection.eof_received()
        self.transport.closed = True
        self.connection.connection_lost(None)
        self.settle()

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1.1 ([2-5]\d\d) ", self.transport.written)]


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Makes clients of an application."""
    loop = asyncio.new_event_loop()

    def make(app: HttpApp, **limits: Any) -> Client:
        return Client.of(app, HttpLimits(**limits), loop)

    yield make
    loop.close()
