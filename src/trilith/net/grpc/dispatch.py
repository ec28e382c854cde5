"""Calls the application, and turns whatever it raises into a status: the only file here that runs foreign code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from trilith.errors import Bug, Cancelled, TrilithError
from trilith.net.grpc.call import CallState, GrpcCall
from trilith.net.grpc.state import ServerState
from trilith.wire.grpc_status import GrpcStatus

_log: Final = logging.getLogger("trilith.grpc")
_RUNNING: Final = CallState.RUNNING


def dispatch(state: ServerState, call: GrpcCall) -> None:
    """Hands a complete call to the application."""
    state.counters.requests += 1
    call.state = _RUNNING
    try:
        answer = state.app(call)
    except Exception as error:  # noqa: BLE001 - the application's
        _fail(call, error)
        return
    if answer is not None:
        task = call.task = state.loop.create_task(_run(call, answer))
        state.tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(state.tasks.discard)
        task.add_done_callback(lambda _: _task_ended(call, answer))


def cancel(call: GrpcCall) -> None:
    """Tells the application that nobody waits for this call any more."""
    call.state = CallState.CANCELLED
    if call.inbox is not None:
        call.inbox.fail(Cancelled("the client took the call back, or its deadline has passed"))
    if call.room is not None:
        call.room.set()
    if call.task is not None:
        call.task.cancel()
    on_cancel, call.on_cancel = call.on_cancel, None
    if on_cancel is None:
        return
    try:
        on_cancel()
    except Exception:  # noqa: BLE001 - the application's
        _log.exception("%r: on_cancel failed", call)


def tell_drain(call: GrpcCall) -> None:
    """Tells the application that the connection of this call should end, once."""
    on_drain, call.on_drain = call.on_drain, None
    if on_drain is None:
        return
    try:
        on_drain()
    except Exception:  # noqa: BLE001 - the application's
        _log.exception("%r: on_drain failed", call)


async def _run(call: GrpcCall, answer: Coroutine[Any, Any, None]) -> None:
    try:
        await answer
    except asyncio.CancelledError:
        if call.state is _RUNNING:
            call.fail_error(Cancelled("the server took the call back before it was answered"))
        raise
    except Exception as error:  # noqa: BLE001 - the application's
        _fail(call, error)
        return
    if call.state is _RUNNING:
        _fail(call, Bug(f"{call!r} ended without an answer"))


def _task_ended(call: GrpcCall, answer: Coroutine[Any, Any, None]) -> None:
    # A task that is cancelled before its first step never awaits the application's coroutine: close it then.
    answer.close()
    call.task = None  # what it raised knows its frames, and they know this call


def _fail(call: GrpcCall, error: Exception) -> None:
    if isinstance(error, TrilithError) and not isinstance(error, Bug):
        if call.state is _RUNNING:
            call.fail_error(error)
        return
    _log.error("request %s (%r) failed", call.request_id, call, exc_info=error)
    if call.state is _RUNNING:
        call.fail(GrpcStatus.INTERNAL, f"internal error, request id {call.request_id}")
