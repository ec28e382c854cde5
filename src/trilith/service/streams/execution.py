"""Runs the calls of streaming methods for a host.

Rule 1: a generator on the loop is driven by the task of its call, and closed in it. A plain one runs in one thread from
    its first step to its last, its closing included.
Rule 2: the caller is answered when the generator is closed: only then has the work stopped. What it yields after its
    call was given up is dropped, and it is closed.
Rule 3: items that were yielded before a failure arrive before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from trilith.core.forks import end_if_forked
from trilith.errors import Cancelled, TrilithError
from trilith.service.call import ServiceCall
from trilith.service.codecs.request import Arguments
from trilith.service.execution import Answer, HostedMethod
from trilith.service.streams.call import StreamServiceCall
from trilith.service.streams.flow import Inlet, Outlet, ThreadInlet, ThreadOutlet
from trilith.service.tracing import enter
from trilith.service.user_errors import USER_ERRORS

InThread = Callable[..., Awaitable[Any]]
"""Runs a function in a thread of the host."""


class CallEnds(Protocol):
    """What a host does with calls that end otherwise than by a result."""

    def failed(self, call: ServiceCall, hosted: HostedMethod, error: BaseException) -> None:
        """The method raised."""
        ...

    def cancelled(self, call: ServiceCall, hosted: HostedMethod, error: asyncio.CancelledError) -> None:
        """Its task was cancelled."""
        ...

    def over(self, call: ServiceCall) -> None:
        """The work on it has ended."""
        ...


class StreamExecution:
    """Runs streams. Each of its coroutines is the task of one call."""

    def __init__(self, ends: CallEnds, in_thread: InThread) -> None:
        self._ends = ends
        self._in_thread = in_thread

    async def on_loop(self, hosted: HostedMethod, call: StreamServiceCall) -> None:
        """One call of a method that runs on the loop."""
        enter(call.context, call.meta.trace)
        try:
            arguments: Arguments
            if hosted.heavy_body(call):
                arguments = await self._in_thread(hosted.decode, call)
            else:
                arguments = hosted.decode(call)
            inlet = None if hosted.item_decoder is None else Inlet(call, hosted.item_decoder)
            result = hosted.invoke(arguments, inlet)
            if hosted.streams:
                await self._send(hosted, call, result)
                answer: Answer = hosted.ended(call)
            else:
                value = await result
                hosted.ran((call,))
                heavy = hosted.heavy_result(value)
                answer = await self._in_thread(hosted.encode, call, value) if heavy else hosted.encode(call, value)
            end_if_forked()
            call.finish(*answer)
        except asyncio.CancelledError as error:
            self._ends.cancelled(call, hosted, error)
        except USER_ERRORS as error:
            self._ends.failed(call, hosted, error)
        finally:
            self._ends.over(call)

    async def _send(self, hosted: HostedMethod, call: StreamServiceCall, result: AsyncIterator[Any]) -> None:
        write = hosted.writer(call.meta)
        outlet = Outlet(call)
        items = aiter(result)
        try:
            async for value in items:
                end_if_forked()
                if call.is_over():
                    return
                buffers = await self._in_thread(write, value) if hosted.heavy_result(value) else write(value)
                await outlet.put(buffers, b"" if call.first_item_at else hosted.first_meta(call))
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    async def in_thread(self, hosted: HostedMethod, call: StreamServiceCall) -> None:
        """One call of a plain method."""
        enter(call.context, call.meta.trace)
        loop = asyncio.get_running_loop()
        outlet = ThreadOutlet(call, loop)
        inlet = None if hosted.item_decoder is None else ThreadInlet(call, hosted.item_decoder, loop)

        def wake(_: ServiceCall) -> None:
            outlet.wake()
            if inlet is not None:
                inlet.wake()

        call.abort = wake
        try:
            answer = await self._in_thread(_whole_call, hosted, call, outlet, inlet)
            try:
                await outlet.drained()
            except TrilithError as error:
                answer = error
            if isinstance(answer, BaseException):
                self._ends.failed(call, hosted, answer)
            else:
                call.finish(*answer)
        except Exception as error:  # noqa: BLE001 - there is no thread for it
            self._ends.failed(call, hosted, error)
        finally:
            call.finish(Cancelled(f"{hosted.where} was cancelled"))  # only when the task itself was
            self._ends.over(call)


def _whole_call(
    hosted: HostedMethod, call: StreamServiceCall, outlet: ThreadOutlet, inlet: ThreadInlet | None
) -> Answer | BaseException:
    """All of a call, in this thread. An error is returned: a future cannot hold every exception."""
    try:
        if call.is_over():
            return Cancelled("the call was given up before a thread was free")
        result = hosted.invoke(hosted.decode(call), inlet)
        if not hosted.streams:
            hosted.ran((call,))
            return hosted.encode(call, result)
        write = hosted.writer(call.meta)
        items = iter(result)
        try:
            for value in items:
                meta = b"" if call.first_item_at else hosted.first_meta(call)
                if call.is_over() or not outlet.put(write(value), meta):
                    break
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        return hosted.ended(call)
    except USER_ERRORS as error:
        if isinstance(error, Cancelled) and call.is_over():
            return Cancelled(error.message)  # without the frames, which know this one in turn
        return error
    finally:
        if call.folder is not None:
            call.folder.remove()
