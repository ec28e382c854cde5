"""A WSGI application, mounted (PEP 3333).

Rule 1: it runs in threads of the service's WSGI applications: see `app_threads`.
Rule 2: what the client does not take is not made: the thread waits. What is not read of the body stays with the client.
Rule 3: a thread cannot be stopped. When the client goes, its next read or write raises an OSError, its iterable is
    closed, and its place is free when it has ended.
"""

from __future__ import annotations

import asyncio
import io
import sys
import urllib.parse
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Final

from trilith.core.forks import end_if_forked
from trilith.service.codecs.native import Buffer
from trilith.service.mounts.app_threads import Turn
from trilith.service.mounts.exchange import ClientGone, Phase
from trilith.service.mounts.exchange_port import ExchangePort
from trilith.service.mounts.port import MountPlace
from trilith.service.user_errors import USER_ERRORS
from trilith.wire.exchange import ExchangeHead

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_READ_BYTES: Final = 64 * 1024
_OWN_NAMES: Final = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType]


class MountedWsgi:
    """A `MountedApp`.

    Args:
        app: the application.
        place: where it is mounted.
    """

    why_not = ""
    cancellable = False

    def __init__(self, app: WsgiApp, place: MountPlace) -> None:
        self._app = app
        self._threads = place.threads

    async def start(self) -> None:
        """It has no beginning."""

    async def answer(self, exchange: ExchangePort) -> None:
        """Calls it for one request, in a thread."""
        work = _Work(self._app, exchange, asyncio.get_running_loop())
        error = await self._threads.run(work.run, exchange.leave)
        if error is not None:
            raise error

    async def stop(self, timeout_s: float) -> None:
        """It has no end."""


class _Work:
    """One request, in its thread."""

    def __init__(self, app: WsgiApp, exchange: ExchangePort, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._exchange = exchange
        self._loop = loop
        self._turn: Turn | None = None
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._started = False

    def run(self, turn: Turn) -> BaseException | None:
        """All of it. What was raised is returned: a future cannot hold every exception."""
        self._turn = turn
        if self._exchange.gone:  # while it waited for a thread
            return ClientGone()
        try:
            body = io.BufferedReader(_Body(self._exchange, self.on_loop), _READ_BYTES)
            answer = self._app(environ_of(self._exchange.head, body), self.start_response)
            try:
                self._answer(answer)
            finally:
                close = getattr(answer, "close", None)
                if close is not None:
                    close()
        except USER_ERRORS as error:
            return error
        return None

    def _answer(self, answer: Iterable[bytes]) -> None:
        for piece in answer:
            end_if_forked()
            if piece:
                self._write(piece)
        if not self._status:
            raise RuntimeError("a WSGI application returned without having called start_response")
        end_if_forked()
        if self._exchange.phase is not Phase.FINISHED:
            self._write(b"", last=True)

    async def _begin(self) -> None:
        if not self._started:
            self._started = True
            await self._exchange.start(self._status, self._headers)

    def _write(self, data: Buffer, *, last: bool = False) -> None:
        exchange = self._exchange

        async def send() -> None:
            await self._begin()
            if last or exchange.left_bytes == len(data):  # all of it is known to be here: no second way to the loop
                await exchange.finish(data)
            else:
                await exchange.send(data)

        if not self._status:
            raise RuntimeError("a WSGI application gave a piece of its answer before it called start_response")
        self.on_loop(send())

    def on_loop(self, steps: Coroutine[Any, Any, Any]) -> Any:
        """What steps on the loop come to."""
        turn = self._turn
        return asyncio.run_coroutine_threadsafe(steps if turn is None else turn.during(steps), self._loop).result()

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExceptionInfo | None = None
    ) -> Callable[[bytes], None]:
        """For the application."""
        if exc_info is not None:
            if self._exchange.phase is not Phase.OPEN or self._started:
                raise exc_info[1].with_traceback(exc_info[2])
        elif self._status:
            raise RuntimeError("a WSGI application called start_response twice, the second time without exc_info")
        self._status = int(status.split(" ", 1)[0])
        self._headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return lambda data: self._write(data) if data else None


class _Body(io.RawIOBase):
    """The body of a request, for the thread."""

    def __init__(self, exchange: ExchangePort, on_loop: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__()
        self._exchange = exchange
        self._on_loop = on_loop
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, target: Any) -> int:
        """As of every raw stream; raises `ClientGone` where the body breaks off."""
        if not len(self._rest):
            self._rest = memoryview(self._on_loop(self._exchange.receive()) or b"")
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def environ_of(head: ExchangeHead, body: io.BufferedIOBase) -> dict[str, Any]:
    """The environment of a request. Of a header that came several times the values are joined."""
    path = urllib.parse.unquote_to_bytes(head.raw_path).decode("latin-1")
    client, server = head.client or ("", 0), head.server or ("localhost", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": head.method,
        "SCRIPT_NAME": head.root_path,
        "PATH_INFO": path[len(head.root_path) :],
        "QUERY_STRING": head.query.decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": f"HTTP/{head.http_version}",
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": head.scheme,
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, raw in head.headers:
        if b"_" in name:  # it would take the place of the header with "-" that it looks like
            continue
        value = raw.decode("latin-1")
        key = _OWN_NAMES.get(name) or f"HTTP_{name.decode('latin-1').upper().replace('-', '_')}"
        if key in environ:
            value = f"{environ[key]}{'; ' if name == b'cookie' else ', '}{value}"
        environ[key] = value
    return environ
