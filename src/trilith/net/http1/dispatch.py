"""Calls the application, and turns whatever it raises into an answer: the only file here that runs foreign code."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from trilith.errors import Bug, Cancelled, TrilithError
from trilith.net.http1.request import HttpRequest
from trilith.net.http1.state import ServerState
from trilith.net.http1.websocket import WebSocketClosed
from trilith.wire.websocket import NORMAL

_log: Final = logging.getLogger("trilith.http")
_UNEXPECTED: Final = "the server failed to answer; its log has the reason under the request id"


def dispatch(state: ServerState, request: HttpRequest) -> None:
    """Hands the request to the application."""
    state.counters.requests += 1
    try:
        answer = state.app(request)
    except Exception as error:  # noqa: BLE001 - the application's
        _fail(request, error)
        return
    if answer is not None:
        # The application's own coroutine, not one around it: cancelled before its first step, it ends without a trace.
        task = state.loop.create_task(answer)
        state.tasks.add(task)
        task.add_done_callback(lambda done: _ended(state, request, done))
        request.attach(task)


def tell_disconnect(request: HttpRequest, callback: Callable[[], None]) -> None:
    """Calls an application's `on_disconnect`."""
    try:
        callback()
    except Exception:  # noqa: BLE001 - the application's
        _log.exception("request %s: on_disconnect failed", request.request_id)


def give_up(request: HttpRequest, error: TrilithError) -> None:
    """Answers a request in place of its application, which is told as if the client had gone."""
    callback = request.give_up(error)
    if callback is not None:
        tell_disconnect(request, callback)


def _ended(state: ServerState, request: HttpRequest, task: asyncio.Task[None]) -> None:
    state.tasks.discard(task)
    request.detach()
    if task.cancelled():
        if not request.gone:
            _fail(request, Cancelled("the server took the request back before it was answered"))
        return
    error = task.exception()
    if error is None and request.websocket is not None:
        request.websocket.close(NORMAL, "")
    elif isinstance(error, Exception):
        _fail(request, error)
    elif not request.answered and not request.gone:
        _fail(request, Bug(f"{request.method} {request.path} ended without an answer"))


def _fail(request: HttpRequest, error: Exception) -> None:
    if (request.gone and isinstance(error, TrilithError)) or isinstance(error, WebSocketClosed):
        return
    if not isinstance(error, TrilithError) or isinstance(error, Bug):
        where = f"{request.method} {request.path}"
        _log.error("request %s (%s) failed", request.request_id, where, exc_info=error)
        error = Bug(_UNEXPECTED)
    if request.gone:
        return
    if request.answered:
        request.abort()  # a stream that had begun; does nothing after a whole answer
    else:
        request.respond_error(error)
