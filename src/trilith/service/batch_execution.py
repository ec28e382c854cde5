"""How the calls of one batched method are executed together. It knows no slot, no deadline and no end of a call.

Rule 1: an item that cannot be decoded fails alone; the batch runs without it.
Rule 2: a batch that raises is tried in halves when its method may run twice; so one item fails alone then, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from trilith.core.context import Context
from trilith.core.forks import end_if_forked
from trilith.core.timeline import Timeline
from trilith.runtime import Halves
from trilith.service.batching import Item
from trilith.service.call import ServiceCall
from trilith.service.codecs.request import Arguments
from trilith.service.execution import HostedMethod
from trilith.service.tracing import enter
from trilith.service.user_errors import USER_ERRORS, from_outside

Result = TypeVar("Result")

_FLOOR: Final = 2


class Fail(Protocol):
    """Answers a call with what its method raised; `logged`: its traceback is in the log already."""

    def __call__(self, call: ServiceCall, hosted: HostedMethod, error: BaseException, *, logged: bool = False) -> None:
        """Answers the call."""
        ...


class InThread(Protocol):
    """Runs a function in one of the service's threads."""

    def __call__(self, function: Callable[..., Result], *arguments: Any) -> Awaitable[Result]:
        """What it returns."""
        ...


class BatchExecution:
    """Decodes, runs and answers batches. `fail` answers one call with an error."""

    def __init__(self, fail: Fail, in_thread: InThread) -> None:
        self._fail = fail
        self._in_thread = in_thread

    def decode(self, hosted: HostedMethod, call: ServiceCall) -> Arguments | None:
        """The arguments of one call; None when it was answered with an error instead."""
        try:
            return hosted.decode(call)
        except USER_ERRORS as error:
            self._fail(call, hosted, error)
            return None

    async def decode_aside(self, hosted: HostedMethod, call: ServiceCall) -> Arguments | None:
        """The same of a body that would hold up the loop."""
        try:
            return await self._in_thread(hosted.decode, call)
        except asyncio.CancelledError:
            raise
        except USER_ERRORS as error:
            self._fail(call, hosted, error)
            return None

    async def answer(self, hosted: HostedMethod, calls: Sequence[ServiceCall], items: Sequence[Item]) -> None:
        """Runs the decoded calls together, and answers each by itself."""
        shared = _shared_context(hosted.where, calls)
        try:
            await self._answer(hosted, shared, calls, items)
        finally:
            if shared.folder is not None:  # elsewhere: the method may have put much into it
                asyncio.get_running_loop().run_in_executor(None, shared.folder.remove)

    async def _answer(
        self, hosted: HostedMethod, shared: Context, calls: Sequence[ServiceCall], items: Sequence[Item]
    ) -> None:
        enter(shared, any(call.meta.trace for call in calls))
        results = await self._execute(hosted, shared, calls, items)
        logged: set[int] = set()
        children = shared.timeline.children
        for call, result in zip(calls, results, strict=True):
            if children:
                call.context.timeline.children.extend(children)
            if isinstance(result, BaseException):
                self._fail(call, hosted, result, logged=id(result) in logged)
                logged.add(id(result))  # one failure of a whole batch is one entry in the log
                continue
            try:
                if hosted.heavy_result(result):
                    meta, buffers = await self._in_thread(hosted.encode, call, result)
                else:
                    meta, buffers = hosted.encode(call, result)
                call.finish(meta, buffers)
            except asyncio.CancelledError:
                raise
            except USER_ERRORS as error:
                self._fail(call, hosted, error)

    async def _execute(
        self, hosted: HostedMethod, shared: Context, calls: Sequence[ServiceCall], items: Sequence[Item]
    ) -> list[Any]:
        """The results of a batch, an exception where an item failed. A method that may run twice is tried in halves."""
        results: list[Any] = []
        halves = Halves(len(items), repeatable=hosted.spec.options.idempotent)
        for first, past in halves:
            try:
                shared.joined = tuple(call.context for call in calls[first:past])
                for context in shared.joined:
                    context.answer = None  # of a run that failed
                results += await self._execute_once(hosted, calls[first:past], items[first:past])
            except USER_ERRORS as error:
                if isinstance(error, asyncio.CancelledError) and from_outside():
                    raise
                if not halves.split():
                    results += [error] * (past - first)
        return results

    async def _execute_once(
        self, hosted: HostedMethod, calls: Sequence[ServiceCall], items: Sequence[Item]
    ) -> list[Any]:
        positional, named = hosted.joined(items)
        if hosted.asynchronous:
            value = await hosted.function(*positional, **named)
            end_if_forked()
        else:
            value = await self._in_thread(_caught, hosted.function, positional, named)
            if isinstance(value, BaseException):
                raise value
        hosted.ran(calls)
        return hosted.split(value, len(items))


def _caught(function: Callable[..., Any], positional: list[Any], named: dict[str, Any]) -> Any:
    """The result, or what was raised: a future cannot hold every exception."""
    try:
        return function(*positional, **named)
    except USER_ERRORS as error:
        return error


def _shared_context(where: str, calls: Sequence[ServiceCall]) -> Context:
    """The context that a batch runs in: it ends when the last of its calls must, and gathers the calls made for all.

    Of what the callers sent it has nothing, not even when there is one: a method must not rely on being alone.
    """
    deadlines = [call.context.deadline for call in calls]
    first = calls[0].context
    return Context(
        request_id=first.request_id,
        timeline=Timeline(f"batch {where}", _FLOOR),
        deadline=max(deadline for deadline in deadlines if deadline is not None),
        temporary_files=first.temporary_files,
    )
