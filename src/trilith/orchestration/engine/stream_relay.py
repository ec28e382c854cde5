"""Streams between services: the items of a replica's call go on to another replica, and the answers' items back.

Rule: an item is passed on when the other side has room for it; until then it lies here, and no more come than the
    window of its own side allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from trilith.errors import Bug, TrilithError
from trilith.net.transport import Buffer, IncomingStream, Item
from trilith.orchestration.engine.calls import PendingCall, nested_timeline
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.wire.calls import ResultMeta, pack_meta, unpack_result


class PeerStreamSink:
    """A replica that called a streaming method of another service."""

    __slots__ = ("_down", "_end", "_incoming", "_up")

    def __init__(self, incoming: IncomingStream) -> None:
        self._incoming = incoming
        self._up: deque[Item] = deque()
        self._down: deque[Item] = deque()
        self._end: tuple[bytes, Sequence[Buffer]] | TrilithError | None = None

    # From the caller to the method.

    def read(self, call: StreamCall) -> None:
        """The caller's items are those of the call."""
        stream = self._incoming.stream

        def came(item: Item) -> None:
            self._up.append(item)
            self.writable(call)

        def ended() -> None:
            self.writable(call)

        stream.receive(came, ended)

    def writable(self, call: StreamCall) -> None:
        """The method wants items."""
        stream = self._incoming.stream
        while self._up and call.writable:
            item = self._up.popleft()
            call.send(item.buffers, item.meta)
            stream.took(item.size_bytes)
        if stream.ended and not self._up:
            call.end()

    # From the method to the caller.

    def item(self, call: StreamCall, item: Item) -> None:
        """Passes an item on, now or when the caller has room for it."""
        stream = self._incoming.stream
        if stream.on_writable is None and not stream.closed:
            stream.on_writable = lambda: self._pass_on(call)
        self._down.append(item)
        self._pass_on(call)

    def _pass_on(self, call: StreamCall) -> None:
        stream = self._incoming.stream
        while self._down and stream.writable:
            item = self._down.popleft()
            stream.send(item.buffers, item.meta)
            call.passed(item.size_bytes)
        if not self._down and self._end is not None:
            self._finish(self._end)

    def answer(self, call: PendingCall, meta: bytes, buffers: Sequence[Buffer]) -> None:
        """Passes the end of the items on, behind those that still lie here; or the one result."""
        if call.trace:
            timeline = call.timeline(nested_timeline(meta)).to_builtins()
            meta = pack_meta(ResultMeta(unpack_result(meta).content_type, timeline=timeline))
        self._over((meta, buffers))

    def fail(self, call: PendingCall, error: TrilithError) -> None:
        """Passes the error on by its code, behind the items that still lie here."""
        if isinstance(error, Bug):
            error = Bug(f"{call.route.service}.{call.route.method}: {error.message}")
        self._over(error)

    def cancelled(self) -> None:
        """The caller has taken its call back, which may be settled here and have items that it never took."""
        self._down.clear()
        if self._end is not None:
            self._finish(self._end)

    def _over(self, end: tuple[bytes, Sequence[Buffer]] | TrilithError) -> None:
        self._up.clear()
        if self._down and not self._incoming.stream.closed:
            self._end = end
        else:
            self._finish(end)

    def _finish(self, end: tuple[bytes, Sequence[Buffer]] | TrilithError) -> None:
        self._end = None
        self._down.clear()
        self._incoming.on_cancel = None
        if isinstance(end, TrilithError):
            self._incoming.fail_error(end)
        else:
            self._incoming.result(*end)
