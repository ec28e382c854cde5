"""One gRPC call before the load: over the very connections that the load will use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from trilith.errors import SetupError
from trilith.measure.load.grpc_lane import GrpcLane
from trilith.measure.load.grpc_station import GrpcStation
from trilith.measure.load.grpc_target import GrpcTarget, prepare_grpc
from trilith.measure.load.lanes import REFUSED, TIMEOUT, Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcAnswer:
    """What came back.

    Attributes:
        error: "" when it is a good answer, else its kind: `grpc-status 5 (NOT_FOUND)`.
        message: what the server says of the error.
        messages: the answer's messages, serialised.
        has_timeline: whether the answer carries a timeline.
    """

    error: str
    message: str
    messages: tuple[bytes, ...]
    has_timeline: bool


class _OneCall:
    """A `Load` of one call."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self.answer: asyncio.Future[GrpcAnswer] = asyncio.get_running_loop().create_future()

    def opened(self, lane: Lane, asked_at: float) -> None:
        """Sends it."""
        if isinstance(lane, GrpcLane) and not self.answer.done():
            lane.kept = []
            lane.send(self._request, sampled=True)

    def ended(self, lane: Lane, error: str) -> None:
        """Keeps the answer."""
        if not isinstance(lane, GrpcLane) or self.answer.done():
            return
        found = GrpcAnswer(
            error=error,
            message=unquote_to_bytes(lane.status_message).decode("utf-8", "replace"),
            messages=tuple(bytes(message) for message in lane.kept or () if isinstance(message, bytes | memoryview)),
            has_timeline=lane.timeline is not None or lane.timeline_place is not None,
        )
        self.answer.set_result(found)

    def items(self, lane: Lane, number: int) -> None:
        """They are kept by the lane."""

    def failed(self, lane: Lane, kind: str) -> None:
        """There is no answer."""
        self.unreachable(0, 0, kind)

    def unreachable(self, station: int, slot: int, kind: str) -> None:
        """There is no connection."""
        if not self.answer.done():
            self.answer.set_exception(SetupError(kind))


async def call(
    target: GrpcTarget,
    messages: Sequence[bytes],
    headers: Sequence[tuple[str, str]] = (),
    *,
    path: str = "",
    timeout_s: float = 30.0,
) -> GrpcAnswer:
    """Makes one call and waits for its end.

    Args:
        target: the server and, unless `path` is given, the method.
        messages: of the request, serialised.
        headers: metadata.
        path: another method of the same server.
        timeout_s: seconds for it.

    Raises:
        SetupError: no answer comes; the message says why and what to check.
    """
    station = GrpcStation(0, target, timeout_s=timeout_s, connections=1)
    one = _OneCall(prepare_grpc(target, messages, headers, path=path))
    station.open(one, 1)
    try:
        async with asyncio.timeout(timeout_s):
            return await one.answer
    except TimeoutError:
        raise _no_answer(target, TIMEOUT, timeout_s) from None
    except SetupError as error:
        raise _no_answer(target, str(error), timeout_s) from None
    finally:
        await station.close()


def _no_answer(target: GrpcTarget, kind: str, timeout_s: float) -> SetupError:
    if kind == REFUSED:
        return SetupError(
            f"nothing listens at {target.authority} (connection refused); start the server, or check the URL"
        )
    if kind == TIMEOUT:
        return SetupError(f"{target.url} gave no answer within {timeout_s:g} s; is it busy, or --timeout too short?")
    return SetupError(
        f"{target.url} gives no gRPC answer: {kind}. Is this the port of gRPC, and is it grpc:// without TLS, or"
        " grpcs:// with it?"
    )
