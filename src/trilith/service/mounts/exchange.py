"""One raw exchange as its replica sees it: an HTTP request as it came, and the way to answer it.

    exchange.head                            method, path, root path, query, headers, addresses: `ExchangeHead`
    await exchange.receive()                 the next piece of the body; None at its end
    await exchange.start(200, headers)       the head of the answer
    await exchange.send(b"...")              a piece of its body; returns when another one may follow
    await exchange.finish(b"...")            its last piece, and its end
    exchange.gone; await exchange.wait_over()

Rule 1: what is not asked for does not come, and what the client does not take is not made: both ways have the windows
    that streams have.
Rule 2: the head waits a turn of the loop for the first piece: an answer that is given at once is one frame.
Rule 3: whoever waits here is woken when the client goes, and gets `ClientGone`, an `OSError`.
"""

from __future__ import annotations

import asyncio
import enum
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from trilith.core.header_fields import TOKEN, VALUE
from trilith.core.timeline import INFER
from trilith.service.codecs.native import Buffer
from trilith.service.streams.call import StreamServiceCall
from trilith.wire.calls import ResultMeta
from trilith.wire.exchange import ExchangeHead, Field, answer_meta, pack_answer

_PIECE_BYTES: Final = 64 * 1024
_END: Final = ResultMeta("")
_BODILESS: Final = (204, 304)


class ClientGone(OSError):
    """Nobody waits for the answer any more."""

    def __init__(self) -> None:
        super().__init__("the client has gone")


class Phase(enum.IntEnum):
    """How far an answer is."""

    OPEN = 0
    STARTED = 1  # the head is said, and not sent
    BEGUN = 2  # it is sent
    FINISHED = 3


class Exchange:
    """See the head of this file.

    Args:
        call: the call that it is.
        head: of the request.
        body: all of it, when `head.whole`.

    Attributes:
        phase: how far the answer is.
        gone: nobody waits for the answer any more.
        left_bytes: how much of the body is still to be sent; None: it is not known.
        on_finish: called when the answer has ended.
    """

    on_finish: Callable[[], None] | None = None

    def __init__(self, call: StreamServiceCall, head: ExchangeHead, body: Buffer = b"") -> None:
        self.head = head
        self.phase = Phase.OPEN
        self.gone = False
        self._call = call
        self._whole: Buffer = body
        self._came: deque[Any] = deque()
        self._asked = False
        self._ended = head.whole
        self._changed = asyncio.Event()
        self._status = 0
        self._fields: list[Field] = []
        self.left_bytes: int | None = None

    @property
    def context(self) -> Any:
        """The circumstances of the call, as `trilith.context()` gives them."""
        return self._call.context

    # The request.

    async def receive(self) -> bytes | None:
        """The next piece of the body, not empty; None: it has ended.

        Raises:
            ClientGone: the rest of it will not come.
        """
        if len(self._whole):
            body, self._whole = bytes(self._whole), b""
            return body
        while True:
            item = await self._item()
            if item is None:
                return None
            piece = item.buffers[0] if len(item.buffers) == 1 else b"".join(item.buffers)
            self._call.port.took(item.size_bytes)
            if len(piece):
                return bytes(piece)

    async def _item(self) -> Any:
        """The next item of the client; None: there are no more."""
        call = self._call
        if not self._asked and not self._ended:
            self._asked = True
            call.port.receive(self._on_item, self._on_end)
        while not self._came:
            if self.gone or (self.phase is Phase.FINISHED and not self._ended):
                raise ClientGone
            if self._ended:
                return None
            call.waits(for_caller=True)
            await self._change()
            call.waits()
        return self._came.popleft()

    def _on_item(self, item: Any) -> None:
        self._came.append(item)
        self._changed.set()

    def _on_end(self) -> None:
        self._ended = True
        self._changed.set()

    # The answer.

    async def start(self, status: int, headers: Iterable[Field] = ()) -> None:
        """Says the head of the answer.

        Args:
            status: 200 to 599.
            headers: names and values. `content-length` is kept to; what else frames a message is for the server.

        Raises:
            RuntimeError: it was said before, or cannot be sent.
        """
        if self.phase is not Phase.OPEN:
            raise RuntimeError("an answer was begun that has begun before")
        self._status, self._fields = _checked(status, headers)
        self.left_bytes = self._length()
        said = self._call.context.answer
        if said is not None:
            self._fields += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in said.fields]
        self.phase = Phase.STARTED
        asyncio.get_running_loop().call_soon(self._send_head)

    def _length(self) -> int | None:
        if self.head.method == "HEAD" or self._status in _BODILESS:
            return None
        found = next((value for name, value in self._fields if name.lower() == b"content-length"), None)
        return None if found is None or not found.strip().isdigit() else int(found)

    async def send(self, data: Buffer) -> None:
        """Sends a piece of the body; returns when another one may follow.

        Raises:
            ClientGone: nobody takes it.
            RuntimeError: the answer has not begun, or has ended, or is longer than its `content-length`.
        """
        if self.phase is not Phase.STARTED and self.phase is not Phase.BEGUN:
            raise RuntimeError("a piece of an answer was sent " + ("before its head" if not self.phase else "after it"))
        for piece in self._pieces(data):
            await self._room()
            self._put(piece)
        await self._room()

    async def finish(self, data: Buffer = b"") -> None:
        """Sends the last piece of the body and ends the answer.

        Raises:
            ClientGone: nobody takes it.
            RuntimeError: as `send`; or the answer is shorter than its `content-length`.
        """
        if self.phase is not Phase.STARTED or len(data) > _PIECE_BYTES:
            await self.send(data)
            data = b""
        if self.gone:
            raise ClientGone
        pieces = list(self._pieces(data))
        if self.left_bytes:
            raise RuntimeError(f"an answer ended {self.left_bytes} bytes before its content-length")
        whole, self.phase = self.phase is Phase.STARTED, Phase.FINISHED
        call = self._call
        call.context.timeline.mark(INFER, time.monotonic())
        timeline = call.context.timeline.to_builtins() if call.meta.trace else None
        if whole:
            call.finish(answer_meta(self._status, self._fields, timeline), pieces)
        else:
            call.finish(_END if timeline is None else ResultMeta("", timeline))
        self._finished()

    def _finished(self) -> None:
        self._changed.set()
        if self.on_finish is not None:
            self.on_finish()

    def _pieces(self, data: Buffer) -> Iterator[Buffer]:
        size = len(data)
        if self.left_bytes is not None:
            if size > self.left_bytes:
                raise RuntimeError(f"an answer is {size - self.left_bytes} bytes longer than its content-length")
            self.left_bytes -= size
        if not size or self.head.method == "HEAD" or self._status in _BODILESS:
            return
        if size <= _PIECE_BYTES:
            yield data
            return
        view = memoryview(data)
        for at in range(0, size, _PIECE_BYTES):
            yield view[at : at + _PIECE_BYTES]

    def _put(self, piece: Buffer) -> None:
        if self.phase is Phase.STARTED:
            self._begin((piece,))
        else:
            self._call.sent_item()
            self._call.port.send((piece,))

    def _send_head(self) -> None:
        if self.phase is Phase.STARTED and not self.gone:
            self._begin(())

    def _begin(self, buffers: Sequence[Buffer]) -> None:
        call = self._call
        self.phase = Phase.BEGUN
        call.port.on_writable = self._changed.set
        call.sent_item()
        call.limit_s = math.inf  # it was one to the beginning of the answer
        call.port.send(buffers, pack_answer(self._status, self._fields))

    async def _room(self) -> None:
        call, port = self._call, self._call.port
        while not self.left and self.phase is Phase.BEGUN and not port.writable:
            call.rests()
            await self._change()
            call.waits()
        if self.left:
            raise ClientGone

    # The end.

    @property
    def left(self) -> bool:
        """Whether the client does not wait any more."""
        return self.gone

    async def returned(self, where: str) -> None:
        """What answers has returned.

        Raises:
            RuntimeError: it has not ended its answer.
        """
        if self.phase is not Phase.FINISHED and not self.gone:
            undone = "answered" if self.phase is Phase.OPEN else "ended its answer"
            raise RuntimeError(f"{where} returned before it had {undone}")

    def leave(self) -> None:
        """Nobody waits for the answer any more: whoever waits here is told."""
        if self.phase is not Phase.FINISHED:
            self.gone = True
            self._changed.set()

    async def wait_over(self) -> None:
        """Returns when the answer has ended, or nobody waits for it any more."""
        while not self.gone and self.phase is not Phase.FINISHED:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _checked(status: object, headers: Iterable[tuple[object, object]]) -> tuple[int, list[Field]]:
    if type(status) is not int or not 200 <= status <= 599:
        raise RuntimeError(f"the status of an answer must be a whole number from 200 to 599, got {status!r:.40}")
    return status, checked_fields(headers)


def checked_fields(headers: Iterable[tuple[object, object]]) -> list[Field]:
    """The headers of an answer.

    Raises:
        RuntimeError: one of them cannot be sent.
    """
    fields: list[Field] = []
    for name, value in headers:
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            raise RuntimeError(f"the headers of an answer are pairs of bytes, got {name!r:.80} and {value!r:.80}")
        if not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            raise RuntimeError(f"a header of an answer cannot be sent: {name!r:.80}: {value!r:.80}")
        fields.append((name, value))
    return fields
