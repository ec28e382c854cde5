"""The methods of a service as an ASGI application: what middleware of the service stands round.

Rule: the same codecs, forms, statuses and errors as at the gateway, which answers methods of services without
    middleware by itself. A call goes through the replica's host, as every call does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from trilith.core.context import current_context
from trilith.errors import MethodNotAllowed, TrilithError
from trilith.service.call import Outcome, ServiceCall
from trilith.service.codecs.native import Buffer
from trilith.service.mounts.exchange import ClientGone
from trilith.service.mounts.inner_call import Handle, envelope, wait_end, when_ended
from trilith.service.mounts.method_socket import MethodSocket
from trilith.service.spec import MethodSpec
from trilith.service.streams.call import StreamServiceCall
from trilith.service.streams.formats import streamed_types, taken_types
from trilith.service.streams.hosted_stream import HostedStream
from trilith.wire.call_headers import CallHeaders, read_headers
from trilith.wire.calls import ResultMeta, unpack_result
from trilith.wire.http_status import error_body, http_status, retry_after
from trilith.wire.stream_answers import STREAM_HEADERS, Silence, check_items, chosen_type
from trilith.wire.stream_formats import FORMATS, StreamFormat

_JSON: Final = "application/json"


class MethodApp:
    """One method.

    Args:
        method: which.
        handle: runs its calls.
        keep_alive_s: a stream of events that is silent for so long gets a comment; 0 for never.
    """

    def __init__(self, method: MethodSpec, handle: Handle, *, keep_alive_s: float = 0.0) -> None:
        self._keep_alive_s = keep_alive_s
        self._method = method
        self._handle = handle

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        answer = _Answer(send, "http.response")
        try:
            if scope["method"] != "POST":
                ways = "POST, or a websocket" if self._method.signature.streaming else "POST"
                raise MethodNotAllowed(f"{scope['path']} takes {ways}, got {scope['method']}")
            headers = read_headers(tuple((bytes(name), bytes(value)) for name, value in scope["headers"]))
            if self._method.signature.streaming:
                await self._stream(scope, receive, answer, headers)
            else:
                call = self._call(scope, headers, await _whole(receive))
                await answer.respond(*await call)
        except ClientGone:
            raise
        except TrilithError as error:
            await answer.fail(error)

    async def _socket(self, scope: Any, receive: Any, send: Any) -> None:
        socket = MethodSocket(self._method, self._handle, scope, receive, send)
        try:
            await socket.answer()
        except TrilithError as error:
            if socket.opened:
                raise
            await _Answer(send, "websocket.http.response").fail(error)  # a handshake is refused in HTTP

    async def _call(self, scope: Any, headers: CallHeaders, body: bytes) -> tuple[ResultMeta, Sequence[Buffer]]:
        answered: asyncio.Future[tuple[ResultMeta, Sequence[Buffer]]] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome, buffers: Sequence[Buffer]) -> None:
            if answered.cancelled():
                return
            if isinstance(outcome, TrilithError):
                answered.set_exception(outcome)
            else:
                answered.set_result((outcome, buffers))

        meta, context = envelope(self._method, scope, headers, headers.content_type)
        call = ServiceCall(meta, [body], context, done)
        ended = when_ended(call)
        self._handle(call)
        try:
            return await answered
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            await wait_end(call, ended)

    async def _stream(self, scope: Any, receive: Any, answer: _Answer, headers: CallHeaders) -> None:
        signature, where = self._method.signature, self._method.where
        form: StreamFormat | None = None
        kind = ""
        if signature.streams:
            kind = chosen_type(headers.accept, streamed_types(signature.result), where)
            form = FORMATS[kind]
        if signature.taken is not None:
            check_items(headers.content_type, taken_types(signature.taken.value), where)
        meta, context = envelope(self._method, scope, headers, headers.content_type)
        stream = HostedStream()
        body = b"" if signature.taken is not None else await _whole(receive)
        call = stream.call = StreamServiceCall(meta, [body], context, stream.finished, port=stream)
        ended = when_ended(call)
        self._handle(call)
        feeding = asyncio.ensure_future(_feed(stream, receive)) if signature.taken is not None else None
        try:
            await self._items(stream, answer, form, kind)
        finally:
            if feeding is not None:
                feeding.cancel()
            stream.cancel()
            await wait_end(call, ended)

    async def _items(self, stream: HostedStream, answer: _Answer, form: StreamFormat | None, kind: str) -> None:
        try:
            while (item := await self._next(stream, answer, form)) is not None:
                if form is not None:
                    await answer.piece(form.item(b"".join(item)), kind, stream.said)
        except TrilithError as error:
            if not answer.begun or form is None or form.failure is None:
                raise
            await answer.piece(form.failure(error_body(error, answer.request_id)), kind, b"")
            await answer.end()
            return
        result, buffers = stream.answer
        if form is None:
            await answer.respond(result, buffers)
        else:
            if not answer.begun:
                await answer.begin(kind, (result.status, result.headers))
            await answer.end()

    async def _next(self, stream: HostedStream, answer: _Answer, form: StreamFormat | None) -> Sequence[Buffer] | None:
        """The next item. While it does not come, the client is told that the stream goes on."""
        silence = Silence(form, self._keep_alive_s, time.monotonic())
        if silence.may_last or not answer.begun:
            return await stream.item()
        while True:
            try:
                async with asyncio.timeout(silence.left_s(time.monotonic())):
                    return await stream.item()
            except TimeoutError:
                await answer.comment(silence.comment)
                silence.wrote_at = time.monotonic()


class _Answer:
    """The way back of one request."""

    def __init__(self, send: Any, kind: str) -> None:
        self._send = send
        self._kind = kind
        self.begun = False

    @property
    def request_id(self) -> str:
        found = current_context.get()
        return "" if found is None else found.request_id

    async def respond(self, result: ResultMeta, buffers: Sequence[Buffer]) -> None:
        """A whole answer."""
        body = bytes(buffers[0]) if len(buffers) == 1 else b"".join(buffers)
        headers = [(b"content-length", b"%d" % len(body)), *_pairs(result.headers)]
        if result.content_type:
            headers.insert(0, (b"content-type", result.content_type.encode("latin-1")))
        await self._whole(result.status, headers, body)

    async def fail(self, error: TrilithError) -> None:
        """An error; one after the answer has begun goes on, and cuts it."""
        if self.begun:
            raise error
        body = error_body(error, self.request_id)
        headers = [(b"content-type", _JSON.encode()), (b"content-length", b"%d" % len(body))]
        again = retry_after(error)
        if again is not None:
            headers.append((b"retry-after", again))
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", b"POST"))
        await self._whole(http_status(error), headers, body)

    async def _whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.begun = True
        await self._send({"type": f"{self._kind}.start", "status": status, "headers": headers})
        await self._send({"type": f"{self._kind}.body", "body": body})

    async def begin(self, kind: str, said: tuple[int, Iterable[tuple[str, str]]]) -> None:
        """The head of a stream."""
        self.begun = True
        headers = [(b"content-type", kind.encode("latin-1")), *STREAM_HEADERS, *_pairs(said[1])]
        await self._send({"type": "http.response.start", "status": said[0], "headers": headers})

    async def piece(self, data: bytes, kind: str, said: bytes) -> None:
        """An item in its frame; the first one with the head before it. `said`: what the method has said of that."""
        if not self.begun:
            told = unpack_result(said) if said else ResultMeta("")
            await self.begin(kind, (told.status, told.headers))
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def comment(self, data: bytes) -> None:
        """What stands between the items of a stream and is none."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """The end of a stream."""
        await self._send({"type": "http.response.body", "body": b""})


def _pairs(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def _pieces(receive: Any) -> AsyncIterator[bytes]:
    """The body of a request. Raises `ClientGone` where it breaks off."""
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        more = message.get("more_body", False)
        if message.get("body"):
            yield message["body"]


async def _whole(receive: Any) -> bytes:
    return b"".join([piece async for piece in _pieces(receive)])


async def _feed(stream: HostedStream, receive: Any) -> None:
    """The body is the items of a call."""
    try:
        async for piece in _pieces(receive):
            await stream.put([piece])
        stream.end()
    except OSError:
        stream.cancel()
