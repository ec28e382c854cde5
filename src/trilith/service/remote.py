"""Calls to a service in another process: the encoding is here, the way there is the worker's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from trilith.core.context import Context
from trilith.core.timeline import ANSWERED, SENT, Timeline
from trilith.errors import Bug
from trilith.service.codecs import native
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.result import ResultDecoder
from trilith.service.spec import ServiceSpec, no_method
from trilith.service.streams.bridge import as_asynchronous, take_out
from trilith.service.tracing import context as context_of_call
from trilith.service.tracing import tracing
from trilith.wire.calls import NATIVE_CONTENT_TYPE, CallMeta, ResultMeta

_FLOOR: Final = 3


class Send(Protocol):
    """Takes a call to wherever its service runs, and brings the answer back."""

    def __call__(
        self, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> Awaitable[tuple[ResultMeta, Sequence[Buffer]]]:
        """The answer's envelope and buffers. Raises TrilithError when the call failed."""
        ...


class ItemStream(Protocol):
    """A call with items, from its caller's side; on the loop."""

    async def item(self) -> Sequence[Buffer] | None:
        """The next item of the method; None: there are no more. Raises TrilithError when the call failed."""
        ...

    async def put(self, buffers: Sequence[Buffer]) -> None:
        """Sends an item; returns when the method wants another one, or none any more."""
        ...

    def end(self) -> None:
        """No more items go to the method."""
        ...

    def fail(self, error: BaseException) -> None:
        """The items that go to the method broke off: the call is taken back, and its reader gets the error."""
        ...

    @property
    def answer(self) -> tuple[ResultMeta, Sequence[Buffer]]:
        """The answer's envelope and buffers, after the last item."""
        ...

    def cancel(self) -> None:
        """Takes the call back, if it has not ended."""
        ...


class Open(Protocol):
    """Takes a call with items to wherever its service runs."""

    def __call__(self, meta: CallMeta, buffers: Sequence[Buffer], context: Context) -> Awaitable[ItemStream]:
        """The call, on its way."""
        ...


class RemoteServiceCaller:
    """A `ServiceCaller` over any transport: packs arguments, restores the result by the method's annotation."""

    def __init__(self, spec: ServiceSpec, send: Send, open_stream: Open | None = None) -> None:
        """`open_stream`: None where no method with items is called."""
        self._spec = spec
        self._send = send
        self._open = open_stream
        self._decoders: dict[str, ResultDecoder] = {}

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result.

        Raises:
            TypeError: an argument is of a type that cannot be sent.
            TrilithError: the call failed, or the method raised.
        """
        decoder = self._decoders.get(method)
        if decoder is None:
            decoder = self._decoders[method] = self._make_decoder(method)
        if self._spec.methods[method].signature.taken is not None:
            return await self._call_with_items(method, decoder, args, kwargs)
        context = context_of_call()
        meta = self._meta(method, context)
        buffers = native.pack_call(args, kwargs)
        child = context.timeline.child(f"call {self._spec.name}.{method}", _FLOOR)
        child.mark(SENT, time.monotonic())
        answer, results = await self._send(meta, buffers, context)
        child.mark(ANSWERED, time.monotonic())
        if answer.timeline is not None:
            child.adopt(Timeline.from_builtins(answer.timeline))
        return decoder.decode(results)

    async def stream(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """The items of a method that streams.

        Raises:
            TypeError: an argument is of a type that cannot be sent.
            TrilithError: the call failed, or the method raised.
        """
        decoder = self._make_decoder(method)
        async with self._opened(method, args, kwargs) as stream:
            while (buffers := await stream.item()) is not None:
                yield decoder.decode(buffers)

    async def _call_with_items(
        self, method: str, decoder: ResultDecoder, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        async with self._opened(method, args, kwargs) as stream:
            while await stream.item() is not None:
                continue  # it has none
            return decoder.decode(stream.answer[1])

    @asynccontextmanager
    async def _opened(
        self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AsyncGenerator[ItemStream, None]:
        """A call with items; it is taken back if it has not ended by the end of the block."""
        spec = self._spec.methods[method]
        context = context_of_call()
        given: Any = None
        if spec.signature.taken is not None:
            given, kwargs = take_out(spec.signature, spec.where, args, kwargs)
            args = ()
        meta = self._meta(method, context)
        child = context.timeline.child(f"call {self._spec.name}.{method}", _FLOOR)
        child.mark(SENT, time.monotonic())
        if self._open is None:
            raise Bug(f"{spec.where} has items, and this caller was made for calls without")
        stream = await self._open(meta, native.pack_call(args, kwargs), context)
        feeding = None if given is None else asyncio.ensure_future(_feed(stream, given))
        try:
            yield stream
            answer = stream.answer[0]
            if answer.timeline is not None:
                child.adopt(Timeline.from_builtins(answer.timeline))
        finally:
            child.mark(ANSWERED, time.monotonic())
            stream.cancel()
            if feeding is not None:
                feeding.cancel()

    def _meta(self, method: str, context: Context) -> CallMeta:
        return CallMeta(
            self._spec.name,
            method,
            NATIVE_CONTENT_TYPE,
            context.request_id,
            None,
            tracing.get(),
            client=context.client,
            identity=context.identity,
        )

    def _make_decoder(self, method: str) -> ResultDecoder:
        spec = self._spec.methods.get(method)
        if spec is None:
            raise no_method(self._spec, method)
        return ResultDecoder(spec.signature, spec.where)


async def _feed(stream: ItemStream, given: Any) -> None:
    """Sends what the caller gave for the stream that a method takes."""
    try:
        async for value in as_asynchronous(given, in_thread=False):
            await stream.put(native.pack(value))
        stream.end()
    except Exception as error:  # noqa: BLE001  the caller's iterator: it gets back what it raised
        stream.fail(error)
