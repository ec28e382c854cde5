"""A worker process: one replica of one service. The only process in which a user's Python code runs.

Rule 1: the order of a start: load the target, (the root's worker) describe it to the agent, connect to the gateway,
    construct the service, then say hello. Calls come after that.
Rule 2: the order of a stop: the gateway has stopped sending; finish what runs, stop the host, exit.
Rule 3: when the gateway dies, the worker keeps running and says hello to the next one.

Started by the agent as `python -m trilith.orchestration.engine.worker CONTROL_FD PARENT_PID ARGUMENTS`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from trilith.core.context import Context
from trilith.core.timeline import RECEIVED, Timeline
from trilith.errors import Cancelled, DeadlineExceeded, SetupError, TrilithError
from trilith.net.transport import Buffer, IncomingCall, LostCall, Peer, connect
from trilith.orchestration.engine import control
from trilith.orchestration.engine.hello import Hello
from trilith.orchestration.engine.launch import WorkerArguments
from trilith.orchestration.engine.process import die_with_parent
from trilith.orchestration.engine.remote import GatewayLink, RemoteResolver
from trilith.runtime import default_roots
from trilith.service import (
    OnDone,
    Outcome,
    ServiceCall,
    ServiceHost,
    ServiceSpec,
    describe,
    load_target,
    service_graph,
    spec_of,
)
from trilith.wire.batches import FLAG_BATCH, BatchItemResult, decode_batch, encode_batch
from trilith.wire.calls import pack_meta, unpack_call

_RECONNECT_S = 0.05
_GIVEN_UP = (Cancelled, DeadlineExceeded)


class Worker:
    """One replica."""

    def __init__(self, arguments: WorkerArguments, channel: control.ControlChannel) -> None:
        self._arguments = arguments
        self._channel = channel
        self._link = GatewayLink()
        self._lost = asyncio.Event()
        self._peer: Peer | None = None

    async def run(self) -> None:
        """Serves until the agent says stop.

        Raises:
            TrilithError: the service cannot be started; the message is for a person.
        """
        target = load_target(self._arguments.target)
        root = spec_of(target)
        roots = self._model_roots(Path(inspect.getfile(root.target)).parent)
        spec = self._spec(root)
        if not self._arguments.service:
            description = msgspec.Raw(msgspec.json.encode(describe(target)))
            self._channel.send(control.Described(description=description, model_roots=roots))
            if root.options.cpu is not None:
                # Native libraries read the bound on their threads when they are loaded, and the target has loaded them
                # without it. The agent starts the replicas anew, with the bound.
                await self._channel.flush()
                return
        self._name = spec.name
        self._host = ServiceHost(spec.target, RemoteResolver(self._link, roots), debug=self._arguments.debug)
        peer = await self._connect()
        await self._host.start()
        self._hello(peer)
        self._channel.send(control.Ready())
        keeper = asyncio.get_running_loop().create_task(self._keep_connected())
        deadline_s = await self._wait_stop()
        keeper.cancel()
        if self._peer is not None:
            await self._peer.close(deadline_s)
        await self._host.stop()

    def _model_roots(self, folder: Path) -> list[str]:
        given = [Path(root) for root in self._arguments.model_roots]
        return [str(root) for root in default_roots(folder, given)]

    def _spec(self, root: ServiceSpec) -> ServiceSpec:
        wanted = self._arguments.service
        if not wanted:
            return root
        found = {spec.name: spec for spec in service_graph(root)}
        if wanted not in found:
            raise SetupError(f"{self._arguments.target} has no service {wanted!r}; it has {', '.join(found)}")
        return found[wanted]

    # The gateway

    async def _connect(self) -> Peer:
        """Connects with a grant of 0: no calls before hello."""
        self._lost.clear()
        peer = await connect(self._arguments.peers_path, grant=0, prepare=self._prepare)
        self._peer = peer
        self._link.use(peer)
        return peer

    def _prepare(self, peer: Peer) -> None:
        peer.on_call = self._called
        peer.on_lost = self._disconnected

    def _disconnected(self, calls: list[LostCall]) -> None:
        self._peer = None
        self._link.lose()
        self._lost.set()

    def _hello(self, peer: Peer) -> None:
        hello = Hello(
            replica_id=self._arguments.replica_id,
            service=self._name,
            revision=self._arguments.revision,
            pid=os.getpid(),
        )
        peer.notify(msgspec.msgpack.encode(hello))
        peer.grant = self._host.spec.concurrency

    async def _keep_connected(self) -> None:
        while True:
            await self._lost.wait()
            try:
                self._hello(await self._connect())
            except SetupError:
                await asyncio.sleep(_RECONNECT_S)  # the agent is starting another gateway

    async def _wait_stop(self) -> float:
        async for message in self._channel.messages():
            if isinstance(message, control.Stop):
                return message.deadline_s
        return 0.0  # the agent is gone

    # Calls

    def _called(self, incoming: IncomingCall) -> None:
        incoming.begin()
        try:
            if incoming.flags & FLAG_BATCH:
                self._called_batch(incoming)
            else:
                self._called_once(incoming)
        except TrilithError as error:
            incoming.fail(error.code, error.message)

    def _called_once(self, incoming: IncomingCall) -> None:
        def done(outcome: Outcome, buffers: Sequence[Buffer]) -> None:
            if not isinstance(outcome, TrilithError):
                incoming.result(pack_meta(outcome), buffers)
            elif call.working and isinstance(outcome, _GIVEN_UP):
                # The client has its answer from the gateway. This one frees the slot: not before the work has stopped.
                call.on_end = lambda: incoming.fail(outcome.code, outcome.message)
            else:
                incoming.fail(outcome.code, outcome.message)

        call = _service_call(self._name, incoming.meta, incoming.buffers, incoming, incoming.deadline, done)
        incoming.on_cancel = call.cancel
        self._host.handle(call)

    def _called_batch(self, incoming: IncomingCall) -> None:
        items = decode_batch(incoming.meta, len(incoming.buffers))
        batch = _BatchAnswer(incoming, len(items))
        calls = []
        position = 0
        for index, item in enumerate(items):
            buffers = incoming.buffers[position : position + item.buffer_count]
            position += item.buffer_count
            call = _service_call(self._name, item.meta, buffers, incoming, item.deadline, batch.collector(index))
            call.on_end = batch.one_ended
            calls.append(call)

        def cancel() -> None:
            for call in calls:
                call.cancel()

        incoming.on_cancel = cancel
        self._host.handle_batch(calls)
        batch.begun(sum(call.working for call in calls))


class _BatchAnswer:
    """Gathers the outcomes of a batch, and answers when the host has ended its work on all of them."""

    def __init__(self, incoming: IncomingCall, count: int) -> None:
        self._incoming = incoming
        self._working = count
        self._results = [BatchItemResult(ok=False)] * count
        self._buffers: list[Sequence[Buffer]] = [()] * count

    def collector(self, index: int) -> OnDone:
        """What takes the outcome of the item at `index`."""

        def done(outcome: Outcome, buffers: Sequence[Buffer]) -> None:
            if isinstance(outcome, TrilithError):
                self._results[index] = BatchItemResult(ok=False, code=outcome.code, message=outcome.message)
            else:
                self._results[index] = BatchItemResult(ok=True, meta=pack_meta(outcome), buffer_count=len(buffers))
                self._buffers[index] = buffers

        return done

    def begun(self, working: int) -> None:
        """How many items the host took; the others were refused at once. Items end in a later turn of the loop."""
        self._working = working
        if working == 0:
            self._answer()

    def one_ended(self) -> None:
        """The host has ended its work on one item."""
        self._working -= 1
        if self._working == 0:
            self._answer()

    def _answer(self) -> None:
        flat = [buffer for group in self._buffers for buffer in group]
        self._incoming.result(encode_batch(self._results), flat)


def _service_call(
    name: str,
    meta: bytes,
    buffers: Sequence[Buffer],
    incoming: IncomingCall,
    deadline: float | None,
    done: OnDone,
) -> ServiceCall:
    call_meta = unpack_call(meta)
    timeline = Timeline(f"service {name}.{call_meta.method}", 2)
    timeline.mark(RECEIVED, incoming.received_at)
    context = Context(request_id=call_meta.request_id, timeline=timeline, deadline=deadline, headers=call_meta.headers)
    return ServiceCall(call_meta, buffers, context, done)


async def _main(control_fd: int, arguments: WorkerArguments) -> None:
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        # The agent decides when to stop; a terminal's Ctrl-C reaches the whole process group.
        loop.add_signal_handler(signal_number, lambda: None)
    channel = await control.open_channel(socket.socket(fileno=control_fd))
    try:
        await Worker(arguments, channel).run()
    except TrilithError as error:
        cause = error.__cause__
        detail = "".join(traceback.format_exception(cause)) if cause is not None else ""
        channel.send(control.Failed(reason=error.message, detail=detail))
        await channel.flush()
        raise SystemExit(1) from error


def main() -> None:
    """Entry point of the process."""
    control_fd, parent, raw = sys.argv[1:]
    die_with_parent(int(parent))
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    uvloop.run(_main(int(control_fd), msgspec.json.decode(raw, type=WorkerArguments)))


if __name__ == "__main__":
    main()
