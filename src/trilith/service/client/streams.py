"""Streaming methods of a server: their items as iterators, and iterables as what they take.

Rule 1: a call begins with the first step. Leaving the iterator, or closing it, ends the connection, and with it the
    work.
Rule 2: the items come as events, which tell a failure midway apart from an item; bytes come as they are.
Rule 3: a call is sent again only before its first item, as other calls are; one that sends items only when none of them
    was asked for: there was no connection.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput, TrilithError
from trilith.service.client.encoding import Body, decode_answer, decode_error, encode_item
from trilith.service.client.late import Items
from trilith.service.client.operations import Operation
from trilith.service.client.retries import Tries
from trilith.service.codecs import media
from trilith.service.failure import Calling
from trilith.service.streams.bridge import BlockingItems, as_asynchronous
from trilith.wire.sse import EventReader
from trilith.wire.stream_formats import BYTES, ERROR_EVENT, SSE

if TYPE_CHECKING:
    from trilith.service.client.duplex import DuplexServer
    from trilith.service.client.transport import AsyncTransport, SyncTransport

_STATUS_UNKNOWN: Final = 500


class ItemReader:
    """Cuts what comes into items.

    Attributes:
        failure: what the server said that went wrong, after all items before it.
    """

    def __init__(self, operation: Operation, content_type: str) -> None:
        self._operation = operation
        self._events = EventReader() if media.media_type(content_type) == SSE else None
        self._whole = media.media_type(content_type) == media.JSON and operation.offers[0] != BYTES
        self.failure: TrilithError | None = None

    def push(self, chunk: bytes) -> Iterator[Any]:
        """The items that are complete now."""
        if self._events is None:
            yield decode_answer(self._operation, media.JSON, chunk) if self._whole else chunk
            return
        for name, data in self._events.push(chunk):
            if name == ERROR_EVENT:
                self.failure = decode_error(_STATUS_UNKNOWN, data, None)
                return
            yield decode_answer(self._operation, media.JSON, data)


def _encoded(operation: Operation, items: Iterable[Any]) -> Iterator[bytes]:
    try:
        for item in items:
            yield encode_item(operation, item)
    finally:
        if isinstance(items, Generator):
            items.close()


async def _encoded_on_loop(operation: Operation, items: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    try:
        async for item in items:
            yield encode_item(operation, item)
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


class _Given:
    """The items that a caller gives, as they are sent.

    Attributes:
        asked: whether the caller was asked for one.
    """

    def __init__(self, operation: Operation, items: Any, *, waits: bool) -> None:
        """Takes what was given; `waits`: the caller waits in a thread.

        Raises:
            InvalidInput, TypeError: the caller gave none that it can.
        """
        if waits and isinstance(items, AsyncIterable):
            raise InvalidInput(f"{operation.method}: this client waits; give it a plain iterable")
        self.asked = False
        self._items: AsyncIterable[bytes] = _encoded_on_loop(operation, as_asynchronous(items, in_thread=False))
        if waits:  # a thread encodes them, too
            self._items = as_asynchronous(_encoded(operation, items), in_thread=True)

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.asked = True
        return aiter(self._items)


async def _items_both_ways(
    operation: Operation, server: DuplexServer, body: Body, given: _Given, tries: Tries, calling: Calling
) -> AsyncGenerator[Any, None]:
    """The items of a method that takes some at the same time."""
    with calling:
        while True:
            patience = tries.patience(time.monotonic())
            try:
                content_type, chunks = await server.open(operation.path, body, given, patience)
                break
            except TrilithError as error:
                if given.asked:
                    raise
                await asyncio.sleep(tries.wait_s(error, now=time.monotonic(), chance=random.random()))
    async with aclosing(_read(operation, content_type, chunks, calling)) as found:
        async for item in found:
            yield item


async def _read(
    operation: Operation, content_type: str, chunks: AsyncGenerator[bytes, None], calling: Calling
) -> AsyncGenerator[Any, None]:
    reader = ItemReader(operation, content_type)
    try:
        while reader.failure is None:
            with calling:
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            for item in reader.push(chunk):
                yield item
        with calling:
            raise reader.failure
    finally:
        await chunks.aclose()


class SyncStreams:
    """Calls of one method that wait."""

    def __init__(
        self, operation: Operation, transport: SyncTransport, calling: Calling, tries: Callable[[], Tries]
    ) -> None:
        self._operation = operation
        self._transport = transport
        self._calling = calling
        self._tries = tries

    def bound(self, signature: inspect.Signature) -> Callable[..., Any]:
        """The function that calls it: it gives an iterator, or the one result."""
        from trilith.service.client.connect import bound_body

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._calling:
                body = bound_body(self._operation, signature, args, kwargs)
                if not self._operation.streams:
                    content_type, chunks = self._open(body)
                    return decode_answer(self._operation, content_type, b"".join(chunks))
            return self._items(body) if body.items is None else self._both(body)

        return call

    def _both(self, body: Body) -> BlockingItems:
        """Items both ways: on a loop of the client's, and the caller's own steps in a thread."""
        from trilith.service.client.duplex import calls_loop

        self._transport.check_open()
        operation, server, calling = self._operation, self._transport.both_ways, self._calling
        given = _Given(operation, body.items, waits=True)
        return BlockingItems(
            lambda: _items_both_ways(operation, server, body, given, self._tries(), calling), calls_loop.loop()
        )

    def _items(self, body: Body) -> Iterator[Any]:
        with self._calling:
            content_type, chunks = self._open(body)
        reader = ItemReader(self._operation, content_type)
        try:
            while reader.failure is None:
                with self._calling:
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                yield from reader.push(chunk)
            with self._calling:
                raise reader.failure
        finally:
            chunks.close()  # type: ignore[attr-defined]  # a generator

    def _open(self, body: Body) -> tuple[str, Iterator[bytes]]:
        tries = self._tries()
        given = None if body.items is None else _Given(self._operation, body.items, waits=True)
        while True:
            patience = tries.patience(time.monotonic())
            try:
                return self._transport.open(self._operation.path, body, given, patience)
            except TrilithError as error:
                if given is not None and given.asked:
                    raise
                time.sleep(tries.wait_s(error, now=time.monotonic(), chance=random.random()))


class AsyncStreams:
    """Calls of one method on an event loop."""

    def __init__(
        self, operation: Operation, transport: AsyncTransport, calling: Calling, tries: Callable[[], Tries]
    ) -> None:
        self._operation = operation
        self._transport = transport
        self._calling = calling
        self._tries = tries

    def bound(self, signature: inspect.Signature) -> Callable[..., Any]:
        """The function that calls it: it gives an asynchronous iterator, or a coroutine of the one result."""
        from trilith.service.client.connect import bound_body

        async def value(body: Body) -> Any:
            with self._calling:
                content_type, chunks = await self._open(body)
                return decode_answer(self._operation, content_type, b"".join([chunk async for chunk in chunks]))

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._calling:
                body = bound_body(self._operation, signature, args, kwargs)
            if not self._operation.streams:
                return value(body)
            if body.items is None:
                return Items(self._operation.method, self._items(body))
            self._transport.check_open()
            given = _Given(self._operation, body.items, waits=False)
            server = self._transport.both_ways
            items = _items_both_ways(self._operation, server, body, given, self._tries(), self._calling)
            return Items(self._operation.method, items)

        return call

    async def _items(self, body: Body) -> AsyncGenerator[Any, None]:
        with self._calling:
            content_type, chunks = await self._open(body)
        async with aclosing(_read(self._operation, content_type, chunks, self._calling)) as found:
            async for item in found:
                yield item

    async def _open(self, body: Body) -> Any:
        tries = self._tries()
        given = None if body.items is None else _Given(self._operation, body.items, waits=False)
        while True:
            patience = tries.patience(time.monotonic())
            try:
                return await self._transport.open(self._operation.path, body, given, patience)
            except TrilithError as error:
                if given is not None and given.asked:
                    raise
                await asyncio.sleep(tries.wait_s(error, now=time.monotonic(), chance=random.random()))
