"""What connected workers say and call: hello, models, other services.

Rule 1: a worker may call models and services as soon as it is connected; it gets calls when it has said hello.
Rule 2: a call of another service goes the way of every call, through the router, with its caller's revision.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trilith.errors import NotFound, TrilithError
from trilith.net.transport import IncomingCall, IncomingStream, LostCall, Peer
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.application import ServedApplication
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.early_calls import EarlyCalls
from trilith.orchestration.engine.hello import LEAVING, Counted, Hello, Readiness, decode_notice
from trilith.orchestration.engine.links import ReplicaLink
from trilith.orchestration.engine.model_calls import ModelDesk
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.sinks import PeerSink
from trilith.orchestration.engine.stream_calls import StreamCall
from trilith.orchestration.engine.stream_relay import PeerStreamSink
from trilith.orchestration.known_revisions import KnownRevisions
from trilith.telemetry import ProgramMetrics
from trilith.wire.calls import CallMeta, unpack_call


class WorkerDesk:
    """Takes the connections of workers. `on_serving` is told the id of a replica that can be called."""

    def __init__(
        self,
        router: Router,
        models: ModelDesk,
        revisions: KnownRevisions[ServedApplication],
        programs: ProgramMetrics,
        *,
        on_serving: Callable[[int], None],
    ) -> None:
        self._router = router
        self._models = models
        self._revisions = revisions
        self._programs = programs
        self._on_serving = on_serving
        self._early = EarlyCalls("the revision of its replica to be announced")
        self._peers: set[Peer] = set()

    def connected(self, peer: Peer) -> None:
        """A worker is there."""
        links: list[ReplicaLink] = []
        revision = 0

        def noticed(raw: bytes) -> None:
            nonlocal revision
            notice = decode_notice(raw)
            if isinstance(notice, Counted):
                self._programs.add(notice.replica_id, notice.revision, notice.families)
                return
            if isinstance(notice, Readiness):
                for link in links:
                    link.unready = notice.why_not
                return
            revision = notice.revision
            if isinstance(notice, Hello):
                link = ReplicaLink(
                    replica_id=notice.replica_id,
                    service=notice.service,
                    revision=notice.revision,
                    pid=notice.pid,
                    peer=peer,
                )
                links.append(link)
                self._router.add(link)
                self._on_serving(notice.replica_id)

        def lost(calls: list[LostCall]) -> None:
            self._peers.discard(peer)
            for link in links:
                self._programs.gone(link.replica_id)
                self._router.lost(link, calls)

        self._peers.add(peer)
        peer.on_notice = noticed
        peer.on_lost = lost
        peer.on_call = lambda incoming: self._called(incoming, revision)

    def leave(self) -> None:
        """Tells every worker that this gateway ends, as the server does."""
        for peer in list(self._peers):
            peer.notify(LEAVING)
            peer.flush()

    def _called(self, incoming: IncomingCall, revision: int) -> None:
        """A replica calls a model, or another service."""
        try:
            meta = unpack_call(incoming.meta)
            if meta.service:
                self.relay(incoming, meta, revision)
            else:
                self._models.take(incoming, meta, revision)
        except TrilithError as error:
            incoming.fail_error(error)

    def announced(self, revision: int) -> None:
        """The revision is known now: what its replicas asked before goes on. So does what waited for an earlier one."""
        for call in self._early.take_up_to(revision):
            self.relay(call.incoming, call.meta, call.revision)

    def given_up(self, revision: int, error: TrilithError) -> None:
        """The revision will not be served: what its replicas asked of services is answered with why."""
        self._early.fail(revision, error)

    def relay(self, incoming: IncomingCall, meta: CallMeta, revision: int) -> None:
        """Sends a call of a replica of that revision on to another service, now or when its revision is known."""
        application = self._revisions.known.get(revision)
        if application is None:
            if self._revisions.is_early(revision):
                self._early.keep(incoming, meta, revision)  # its order is on the way
                return
            application = self._revisions.served
        methods = application.methods if application is not None else {}
        route = methods.get((meta.service, meta.method))
        if route is None:
            incoming.fail_error(NotFound(f"the service {meta.service} has no method {meta.method}"))
            return
        incoming.begin()
        if isinstance(incoming, IncomingStream):
            self._relay_stream(incoming, meta, route, revision)
            return
        now = self._router.now()
        limit = now + route.timeout_s
        call = PendingCall(
            route,
            incoming.meta,
            incoming.buffers,
            received_at=incoming.received_at,
            submitted_at=now,
            deadline=limit if incoming.deadline is None else min(limit, incoming.deadline),
            sink=PeerSink(incoming),
            trace=meta.trace,
            revision=revision,
        )
        incoming.on_cancel = lambda: self._router.cancel(call)
        self._submit(call)

    def _relay_stream(self, incoming: IncomingStream, meta: CallMeta, route: MethodRoute, revision: int) -> None:
        sink = PeerStreamSink(incoming)
        call = StreamCall(
            route,
            incoming.meta,
            incoming.buffers,
            received_at=incoming.received_at,
            submitted_at=self._router.now(),
            whole_at=math.inf if incoming.deadline is None else incoming.deadline,
            sink=sink,
            trace=meta.trace,
            revision=revision,
        )

        def cancelled() -> None:
            self._router.cancel(call)
            sink.cancelled()

        incoming.on_cancel = cancelled
        if route.takes:
            sink.read(call)
        else:
            call.end()
        self._submit(call)

    def _submit(self, call: PendingCall) -> None:
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)
