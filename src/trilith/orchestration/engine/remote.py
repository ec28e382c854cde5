"""How a service in a worker reaches other services and models: over its connection to the gateway.

Rule 1: the gateway is the only router. A worker never talks to another worker.
Rule 2: a call carries the deadline of the call on whose behalf it is made, and its timeline hangs under that call's.
Rule 3: when the gateway is being replaced, calls that were lost get an error; new ones wait for the new gateway. When
    it leaves because the server stops, calls are nobody's failures: they end with this process, which is next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from weakref import WeakSet

from trilith.core.context import Context
from trilith.errors import DeadlineExceeded, Draining, NoReadyReplica, ReplicaLost, TrilithError
from trilith.net.transport import Buffer, Peer, Reply
from trilith.orchestration.engine.link_stream import LinkStream
from trilith.service import (
    InProcessResolver,
    ModelCaller,
    Placement,
    RemoteServiceCaller,
    ServiceCaller,
    ServiceSpec,
)
from trilith.wire.calls import CallMeta, ResultMeta, pack_meta, unpack_result

_GATEWAY_WITHIN_S = 10.0
_STOP_WITHIN_S = 10.0  # this process ends earlier, unless something hangs


class GatewayLink:
    """The worker's connection to the gateway, whichever it is at the moment."""

    def __init__(self) -> None:
        self._peer: Peer | None = None
        self._connected = asyncio.Event()
        self._room = asyncio.Event()
        self._asked: set[asyncio.Future[Reply]] = set()
        self._streams: WeakSet[LinkStream] = WeakSet()
        self._leaving = False

    def use(self, peer: Peer) -> None:
        """From now on calls go over this connection."""
        self._peer, self._leaving = peer, False
        peer.on_credits = self._room.set
        self._connected.set()
        self._room.set()

    def gateway_leaves(self) -> None:
        """The connection will end because the server stops, as this process will."""
        self._leaving = True

    def lose(self) -> None:
        """The connection ended: what was asked over it gets an error, new calls wait for the next one."""
        self._peer = None
        self._connected.clear()
        self._room.set()
        asked, streams = list(self._asked), list(self._streams)
        if self._leaving:
            stopping = Draining("the server is stopping; the call was not answered")
            asyncio.get_running_loop().call_later(_STOP_WITHIN_S, _fail, asked, streams, stopping)
        else:
            _fail(asked, streams, ReplicaLost("the gateway ended while it had the call; another one is started"))

    async def send(
        self, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> tuple[ResultMeta, Sequence[Buffer]]:
        """Sends a call and waits for its answer; a cancelled wait cancels the call.

        Raises:
            NoReadyReplica: the gateway is gone and no other came.
            ReplicaLost: the gateway ended while it had the call.
            TrilithError: what the other side answered.
        """
        peer = await self._peer_in_time(context.deadline)
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: Reply) -> None:
            if not answered.done():
                answered.set_result(reply)

        call_id = peer.call(pack_meta(meta), buffers, on_reply, deadline=context.deadline)
        self._asked.add(answered)
        try:
            reply = await answered
        except asyncio.CancelledError:
            peer.cancel(call_id)
            raise
        finally:
            self._asked.discard(answered)
        if not reply.ok:
            raise reply.error()
        return unpack_result(reply.meta), reply.buffers

    async def open(self, meta: CallMeta, buffers: Sequence[Buffer], context: Context) -> LinkStream:
        """Sends a call with items.

        Raises:
            NoReadyReplica: the gateway is gone and no other came.
        """
        peer = await self._peer_in_time(context.deadline)
        stream = LinkStream(peer, pack_meta(meta), buffers, context.deadline)
        self._streams.add(stream)
        return stream

    async def _peer_in_time(self, deadline: float | None) -> Peer:
        peer = self._peer
        if peer is not None and peer.credits > 0:
            return peer
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            async with asyncio.timeout(left_s):
                return await self._peer_with_room()
        except TimeoutError:
            raise DeadlineExceeded("the call's time ran out while it waited for room at the gateway") from None

    async def _peer_with_room(self) -> Peer:
        while True:
            peer = self._peer
            if peer is None:
                try:
                    await asyncio.wait_for(self._connected.wait(), _GATEWAY_WITHIN_S)
                except TimeoutError:
                    raise NoReadyReplica(
                        f"the gateway is gone, and no other came within {_GATEWAY_WITHIN_S:g} s"
                    ) from None
            elif peer.credits > 0:
                return peer
            else:
                self._room.clear()
                await self._room.wait()


def _fail(asked: Sequence[asyncio.Future[Reply]], streams: Sequence[LinkStream], error: TrilithError) -> None:
    for answered in asked:
        if not answered.done():
            answered.set_exception(error)
    for stream in streams:
        stream.lost(error)


class RemoteResolver:
    """Finds services and models through the gateway; a model that is placed in the replica is loaded here."""

    def __init__(self, link: GatewayLink, model_roots: Sequence[str]) -> None:
        self._link = link
        self._local = InProcessResolver(*model_roots)

    def service(self, spec: ServiceSpec) -> ServiceCaller:
        """The caller of another service."""
        return RemoteServiceCaller(spec, self._link.send, self._link.open)

    def model(self, reference: str, placement: Placement) -> ModelCaller:
        """The caller of a model, at the node or in this process."""
        if placement == "replica":
            return self._local.model(reference, placement)
        from trilith.orchestration.engine.remote_model import RemoteModel  # numpy, only where a model is used

        return RemoteModel(reference, self._link)
