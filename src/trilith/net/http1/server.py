"""The HTTP/1.1 server: listens, ticks, counts, and stops in a written order."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Sequence
from typing import Final

from trilith.errors import Draining
from trilith.net.held_bytes import HeldBytes
from trilith.net.http1.connection import HttpConnection
from trilith.net.http1.state import AnswerHeaders, ErrorForm, HttpApp, ServerState, usual_form
from trilith.net.http1.statistics import HttpCounters, HttpStatistics
from trilith.net.listeners import Listeners
from trilith.wire.http1 import HttpLimits

_LAST_ANSWERS_S: Final = 0.5
_SETTLE_S: Final = 1.0  # for connections that were cut and tasks that were cancelled to be gone


class HttpServer:
    """Serves one application. Start it once; `drain` ends it.

    Args:
        app: answers the requests; see `HttpApp`.
        limits: bounds on what clients may send and how long they may take.
        ssl: serves TLS with this context (see `tls_context`); None serves plain text.
        answer_headers: what is said in every answer, those included that no application has given; None for nothing.
        held: the bound on the bytes kept for clients, shared by the servers of a process; None for one of 1 GiB.
        error_form: how errors are told that no application has answered, or that one answers by `respond_error`.
    """

    def __init__(
        self,
        app: HttpApp,
        *,
        limits: HttpLimits | None = None,
        ssl: tls.SSLContext | None = None,
        error_form: ErrorForm = usual_form,
        answer_headers: AnswerHeaders | None = None,
        held: HeldBytes | None = None,
    ) -> None:
        self._app = app
        self._held = held
        self._limits = limits if limits is not None else HttpLimits()
        self._ssl = ssl
        self._error_form = error_form
        self._answer_headers = answer_headers
        self._state: ServerState | None = None
        self._listeners = Listeners()

    def __repr__(self) -> str:
        open_now = len(self._state.connections) if self._state is not None else 0
        return f"<HttpServer {self._listeners}, {open_now} connections>"

    async def start(
        self, *, host: str = "127.0.0.1", port: int = 0, sockets: Sequence[socket.socket] | None = None
    ) -> None:
        """Listens on `host` and `port`, or on `sockets` that listen already (the server owns them from then on).

        Raises:
            PortInUse: another process listens there.
            InvalidConfig: the host is not one of this machine.
            SetupError: the system refuses, or the server was started before.
        """
        self._listeners.bind(host, port, sockets)
        state = self._state = ServerState(
            self._app, self._limits, asyncio.get_running_loop(), self._error_form, self._answer_headers, self._held
        )
        await self._listeners.serve(
            lambda: HttpConnection(state),
            ssl=self._ssl,
            handshake_timeout_s=self._limits.head_timeout_s,
            room=state.room,
            counters=state.counters,
            tick_s=self._limits.tick_s,
            tick=self._tick,
        )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The (host, port) pairs that the server listens on, with the ports that the system chose."""
        return list(self._listeners.addresses)

    async def drain(self, timeout_s: float) -> int:
        """Stops: takes no new connection, closes idle ones, finishes what has begun, and gives up the rest.

        What is given up is answered with `Draining` (503); an answer that has begun is ended as its application ends
        it in error (see `HttpRequest.on_give_up`), or cut. Then what the application still does is cancelled. A second
        call does nothing.

        Args:
            timeout_s: seconds after which requests that are still unanswered are given up; 0 for at once.

        Returns:
            How many connections had an answer that was not complete then.
        """
        state = self._state
        if state is None:
            return 0
        # New connections first, so that what remains can only become less.
        self._listeners.close()
        state.draining = True
        for connection in list(state.connections):
            connection.close_when_idle()
        await self._wait_until_empty(state, timeout_s)
        remaining = [*state.connections, *state.turned_away]
        cut = sum(connection.busy for connection in remaining)
        error = Draining("the server is stopping: the request was not answered before the time for that was over")
        for connection in list(state.connections):
            connection.give_up(error)
        await self._wait_until_empty(state, _LAST_ANSWERS_S)
        for connection in [*state.connections, *state.turned_away]:
            connection.abort()
        await self._wait_until_empty(state, _SETTLE_S)
        # What an application still does after its answers ends here: nobody waits for it.
        tasks = list(state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_SETTLE_S)
        # The clock last: until here it has ended what lasted too long.
        self._listeners.stop_ticking()
        state.hangups.close()
        return cut

    def statistics(self) -> HttpStatistics:
        """Counts since the start, and what is open now."""
        state = self._state
        counters = state.counters if state is not None else HttpCounters()
        connections = state.connections if state is not None else ()
        in_flight = sum(connection.in_flight for connection in connections)
        return counters.snapshot(connections=len(connections), in_flight=in_flight)

    def _tick(self) -> None:
        state = self._state
        if state is None:
            return
        state.refresh()
        for connection in [*state.connections, *state.turned_away]:
            connection.check(state.now)

    @staticmethod
    async def _wait_until_empty(state: ServerState, timeout_s: float) -> None:
        if not state.connections and not state.turned_away:
            return
        emptied = asyncio.Event()
        state.empty = emptied.set
        try:
            async with asyncio.timeout(timeout_s):
                await emptied.wait()
        except TimeoutError:
            return
        finally:
            state.empty = None
