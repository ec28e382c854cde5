"""The call that a request behind middleware becomes, and its end."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import msgspec

from trilith.core.context import Context, current_context
from trilith.core.timeline import Timeline
from trilith.service.call import ServiceCall
from trilith.service.spec import MethodSpec
from trilith.wire.call_headers import CallHeaders
from trilith.wire.calls import CallMeta

Handle = Callable[[ServiceCall], None]
"""Runs a call: `ServiceHost.handle`."""


def envelope(method: MethodSpec, scope: Any, headers: CallHeaders, content_type: str) -> tuple[CallMeta, Context]:
    """What the call of a request to a method says of itself, and its circumstances.

    Args:
        method: which.
        scope: of the request.
        headers: of it.
        content_type: of the arguments.
    """
    outer = current_context.get() or Context(request_id="", timeline=Timeline("service", 2))
    pairs: dict[str, str] = msgspec.msgpack.decode(headers.forwarded)
    meta = CallMeta(
        method.service.name,
        method.name,
        content_type,
        outer.request_id,
        pairs,
        query=scope.get("query_string", b"").decode("latin-1"),
        client=outer.client,
        identity=outer.identity,
    )
    context = Context(
        request_id=outer.request_id,
        timeline=Timeline(f"service {method.where}", 2),
        deadline=None if headers.timeout_s == math.inf else time.monotonic() + headers.timeout_s,
        headers=pairs,
        client=outer.client,
        identity=outer.identity,
    )
    return meta, context


def when_ended(call: ServiceCall) -> asyncio.Event:
    """Set when the host has ended its work on a call."""
    ended = asyncio.Event()
    call.on_end = ended.set
    return ended


async def wait_end(call: ServiceCall, ended: asyncio.Event) -> None:
    """Returns when the work on a call has stopped. A thread may go on after its answer, and has a place until then."""
    while call.working:
        try:
            await ended.wait()
        except asyncio.CancelledError:
            if not call.working:
                raise
