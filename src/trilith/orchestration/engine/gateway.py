"""The gateway process: both protocol fronts, the node's runtime, the router. One uvloop thread, no user code.

Rule: this file wires; what a request meets on its way stands in `front`, `router`, `batching`, `model_calls`, `sinks`.

Started by the agent as `python -P -m trilith.orchestration.engine.gateway CONTROL_FD PARENT_PID ARGUMENTS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from trilith.core.collector import settle_collector
from trilith.core.lifeline import die_with_parent
from trilith.errors import NotFound, SetupError, TrilithError, UnknownReference
from trilith.net.grpc import GrpcLimits, GrpcServer
from trilith.net.http1 import HttpLimits, HttpRequest, HttpServer, tls_context
from trilith.net.transport import IncomingCall, Listener, LostCall, Peer
from trilith.orchestration.connections import ConnectionBounds, connection_bounds
from trilith.orchestration.engine import control, readiness
from trilith.orchestration.engine.application import Application, read_application
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.control_channel import ControlChannel
from trilith.orchestration.engine.front import HttpFront
from trilith.orchestration.engine.hello import Hello, decode_notice
from trilith.orchestration.engine.launch import GatewayArguments
from trilith.orchestration.engine.links import ReplicaLink
from trilith.orchestration.engine.model_calls import ModelDesk
from trilith.orchestration.engine.model_rows import model_rows, runtime_config
from trilith.orchestration.engine.node_models import NodeModels
from trilith.orchestration.engine.process import open_to_agent, raise_descriptor_limit
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.server_metrics import server_source
from trilith.orchestration.engine.service_metrics import ServiceMetrics
from trilith.orchestration.engine.sinks import PeerSink
from trilith.orchestration.engine.status import status_document
from trilith.runtime import Runtime
from trilith.runtime.protocol import OipGrpc, OipHttp, model_source, oip_services
from trilith.service import docs_html, openapi_document
from trilith.telemetry import HostMetrics, Metrics, RequestMetrics, TimelineShelf
from trilith.telemetry.exposition import CONTENT_TYPE, render
from trilith.wire.calls import CallMeta, unpack_call

_log: Final = logging.getLogger("trilith.gateway")
_PEER_GRANT = 4096  # calls that one replica may have at the gateway; their own queues bound them earlier


class Gateway:
    """One gateway. `run` serves until the agent says stop."""

    def __init__(self, arguments: GatewayArguments, channel: ControlChannel) -> None:
        self._arguments = arguments
        self._channel = channel
        self._metrics = Metrics()
        self._service_metrics = ServiceMetrics(self._metrics)
        self._runtime = Runtime(
            *arguments.repositories,
            config=runtime_config(
                arguments.repository,
                compat=arguments.protocol.compat,
                loads=Path(arguments.loads),
                loading=self._show_loading,
            ),
        )
        self._models = ModelDesk(self._runtime)
        self._router = Router(
            observe=self._service_metrics.observe,
            observe_batch=self._service_metrics.observe_batch,
            on_idle=lambda replica_id: channel.send(control.ReplicaIdle(replica_id=replica_id)),
            on_unwell=lambda replica_id, why: channel.send(control.ReplicaUnwell(replica_id=replica_id, reason=why)),
            unresponsive_s=arguments.unresponsive_s,
        )
        self._node_models = NodeModels(self._runtime)
        self._rows: list[control.ReplicaRow] = []
        self._application: Application | None = None  # that is served
        self._prepared: Application | None = None  # whose models are loaded, or being loaded
        self._applications: dict[int, Application] = {}  # of all revisions of which a replica may still make calls
        self._early: dict[int, list[tuple[IncomingCall, CallMeta]]] = {}  # calls of revisions that are not known yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._scraped = b""  # what /metrics says in this turn of the loop

    async def run(self) -> None:
        """Serves; returns when it is drained."""
        arguments = self._arguments
        requests = RequestMetrics(self._metrics)
        self._metrics.add_source(model_source(self._runtime))
        self._metrics.add_source(HostMetrics())
        timelines = TimelineShelf()
        oip_http = OipHttp(self._runtime, metrics=requests, timelines=timelines, options=arguments.protocol)
        oip_grpc = OipGrpc(self._runtime, metrics=requests, timelines=timelines, options=arguments.protocol)
        self._front = front = HttpFront(self._router, models=oip_http, timelines=timelines)
        front.starting = not arguments.repositories
        front.serve_plain("/livez", lambda request: request.respond(200, b'{"live":true}'))
        front.serve_plain("/readyz", self._readyz)
        front.serve_plain("/metrics", self._scrape)
        front.serve_plain("/openapi.json", self._openapi)
        front.serve_plain("/docs", self._docs)
        http_limits, grpc_limits, admin_limits = _limits(arguments.max_body_bytes)
        http = HttpServer(
            front, limits=http_limits, ssl=_tls(arguments, "h2", "http/1.1"), error_form=oip_http.error_form
        )
        services = oip_services(oip_grpc, self._runtime)
        grpc = GrpcServer(services, streaming=services.streaming, limits=grpc_limits, ssl=_tls(arguments, "h2"))
        admin = HttpServer(self._admin, limits=admin_limits)
        listener = Listener(self._connected, grant=_PEER_GRANT)
        self._service_metrics.watch(self._router)
        self._metrics.add_source(server_source(http.statistics, grpc.statistics))
        self._show_life()
        self._router.start()
        listener.start(socket.socket(fileno=arguments.peers_fd))
        await admin.start(sockets=[socket.socket(fileno=fd) for fd in arguments.metrics_fds])
        await http.start(sockets=[socket.socket(fileno=fd) for fd in arguments.http_fds])
        await grpc.start(sockets=[socket.socket(fileno=fd) for fd in arguments.grpc_fds])
        loading = asyncio.get_running_loop().create_task(self._runtime.__aenter__())
        obeying = asyncio.get_running_loop().create_task(self._obey(loading))
        await asyncio.wait({obeying, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not obeying.done():
            await loading
            if arguments.repositories:
                settle_collector()
                failures = _failures(self._runtime)
                if failures and arguments.repository.exit_on_error:
                    await self._runtime.__aexit__(None, None, None)
                    raise SetupError(f"--exit-on-error, and a model cannot be loaded: {'; '.join(failures)}")
                self._channel.send(self._loaded(0, failures))
        timeout_s = await obeying
        # Stop accepting and finish what is in flight on both fronts; replicas and runtime serve meanwhile.
        front.draining = oip_http.exiting = oip_grpc.exiting = True
        await asyncio.gather(http.drain(timeout_s), grpc.drain(timeout_s))
        await admin.drain(0.0)
        listener.close()
        self._router.stop()
        await self._end_runtime(loading)

    def _show_life(self) -> None:
        self._channel.send(control.Alive())
        asyncio.get_running_loop().call_later(self._arguments.unresponsive_s / 4, self._show_life)

    async def _end_runtime(self, loading: asyncio.Task[Runtime]) -> None:
        """Unloads the models; a model that is being loaded cannot be interrupted, and is not waited for."""
        if not loading.done() or self._tasks:
            await self._channel.flush()
            os._exit(0)
        await self._runtime.__aexit__(None, None, None)

    # The agent's orders

    async def _obey(self, loading: asyncio.Task[Runtime]) -> float:
        """Follows the agent until it says stop (or is gone); seconds that requests in flight get."""
        async for message in self._channel.messages():
            if isinstance(message, control.Deploy):
                self._spawn(self._prepare(message, loading))
            elif isinstance(message, control.Publish):
                if self._prepared is not None and self._prepared.revision == message.revision:
                    self._publish(self._prepared)
                    self._spawn(self._trim_models())
            elif isinstance(message, control.RemoveReplica):
                self._router.remove(message.replica_id)
            elif isinstance(message, control.ReplicaGone):
                self._router.gone(message.replica_id)
                self._spawn(self._trim_models())
            elif isinstance(message, control.Replicas):
                self._rows = message.replicas
            elif isinstance(message, control.Stop):
                return message.timeout_s
        return 0.0

    async def _prepare(self, order: control.Deploy, loading: asyncio.Task[Runtime]) -> None:
        """Loads the models of a revision; the one that is served goes on meanwhile."""
        try:
            application = read_application(order.description, order.revision)
            self._prepared = application
            self._applications[order.revision] = application
            for incoming, meta in self._early.pop(order.revision, []):
                self._relay(incoming, meta, order.revision)
            if order.publish:
                self._publish(application)
            await asyncio.shield(loading)
            failures = await self._node_models.load(application.models, order.model_roots)
        except UnknownReference as error:
            self._channel.send(control.Unprepared(revision=order.revision, reason=error.message))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this revision, not those that serve
            _log.exception("getting revision %s ready failed", order.revision)
            self._channel.send(control.Unprepared(revision=order.revision, reason=repr(error)))
            return
        if order.publish:
            settle_collector()
        self._models.prepared(order.revision)
        self._channel.send(self._loaded(order.revision, failures))

    async def _trim_models(self) -> None:
        """Unloads what neither the served and the next revision need, nor a replica that is still connected."""
        replicas = [link for deployment in self._router.deployments for link in deployment.everyone]
        wanted = [self._applications.get(link.revision) for link in replicas]
        applications = [entry for entry in (self._application, self._prepared, *wanted) if entry is not None]
        await self._node_models.keep_only({model for entry in applications for model in entry.models})

    def _loaded(self, revision: int, failures: list[str]) -> control.GatewayReady:
        return control.GatewayReady(
            revision=revision,
            models=len(self._runtime.models()),
            failures=failures,
            rows=model_rows(self._runtime) if self._arguments.repositories else [],
        )

    def _show_loading(self, done: int, total: int, name: str) -> None:
        self._channel.send(control.ModelsLoading(done=done, total=total, name=name))

    def _publish(self, application: Application) -> None:
        """Calls go to this revision from now on."""
        self._application = application
        connected = {link.revision for deployment in self._router.deployments for link in deployment.everyone}
        self._applications = {
            revision: entry
            for revision, entry in self._applications.items()
            if revision >= application.revision or revision in connected
        }
        services = [service.name for service in application.description.services]
        self._router.publish(application.revision, services, application.methods.values())
        self._front.serve_methods(application.paths)
        self._front.starting = False

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the gateway failed", exc_info=task.exception())

    # Replicas

    def _connected(self, peer: Peer) -> None:
        """A worker is there. It may call models and services at once; it gets calls when it says hello."""
        links: list[ReplicaLink] = []
        revision = 0

        def noticed(raw: bytes) -> None:
            nonlocal revision
            notice = decode_notice(raw)
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
                self._channel.send(control.ReplicaServing(replica_id=notice.replica_id))

        def lost(calls: list[LostCall]) -> None:
            for link in links:
                self._router.lost(link, calls)

        peer.on_notice = noticed
        peer.on_lost = lost
        peer.on_call = lambda incoming: self._called(incoming, revision)

    def _called(self, incoming: IncomingCall, revision: int) -> None:
        """A replica calls a model, or another service."""
        try:
            meta = unpack_call(incoming.meta)
            if meta.service:
                self._relay(incoming, meta, revision)
            else:
                self._models.take(incoming, meta, revision)
        except TrilithError as error:
            incoming.fail_error(error)

    def _relay(self, incoming: IncomingCall, meta: CallMeta, revision: int) -> None:
        newest = self._application.revision if self._application is not None else 0
        if revision > newest and revision not in self._applications:
            self._early.setdefault(revision, []).append((incoming, meta))  # its order is on the way
            return
        application = self._applications.get(revision, self._application)
        methods = application.methods if application is not None else {}
        route = methods.get((meta.service, meta.method))
        if route is None:
            incoming.fail_error(NotFound(f"the service {meta.service} has no method {meta.method}"))
            return
        incoming.begin()
        now = time.monotonic()
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
        try:
            self._router.submit(call)
        except TrilithError as error:
            self._router.fail(call, error)

    # The gateway's own answers

    def _readyz(self, request: HttpRequest) -> None:
        problems = self._problems()
        body = msgspec.json.encode({"ready": not problems, "problems": problems})
        request.respond(503 if problems else 200, body)

    def _problems(self) -> list[str]:
        return readiness.problems(
            services_without_replica=self._router.not_ready(),
            application_missing=self._application is None and not self._arguments.repositories,
            models_ready=self._runtime.ready,
            draining=self._front.draining,
        )

    def _scrape(self, request: HttpRequest) -> None:
        if not self._scraped:
            # Whoever asks in the same turn of the loop, on a hundred streams of HTTP/2 say, gets the same text.
            self._scraped = render(self._metrics)
            asyncio.get_running_loop().call_soon(self._forget_scrape)
        request.respond(200, self._scraped, content_type=CONTENT_TYPE)

    def _forget_scrape(self) -> None:
        self._scraped = b""

    def _openapi(self, request: HttpRequest) -> None:
        if self._application is None:
            request.respond_error(NotFound("there is no service here yet; models are at /v2"))
        else:
            request.respond(200, msgspec.json.encode(openapi_document(self._application.description)))

    def _docs(self, request: HttpRequest) -> None:
        if self._application is None:
            request.respond_error(NotFound("there is no service here yet; models are at /v2"))
        else:
            request.respond(
                200, docs_html(self._application.description.name), content_type=b"text/html; charset=utf-8"
            )

    def _admin(self, request: HttpRequest) -> None:
        """The metrics port: for operators, not for clients of the services."""
        if request.path == "/metrics":
            self._scrape(request)
        elif request.path == "/status":
            ready, draining = not self._problems(), self._front.draining
            document = status_document(self._router, self._runtime, self._rows, ready=ready, draining=draining)
            request.respond(200, msgspec.json.encode(document))
        elif request.path in ("/livez", "/readyz"):
            self._front(request)
        else:
            request.respond_error(NotFound(f"there is nothing at {request.path}; there are /metrics and /status"))


def _failures(runtime: Runtime) -> list[str]:
    return [f"{model.name}: {model.reason}" for model in runtime.models() if model.reason]


def _limits(max_body_bytes: int) -> tuple[HttpLimits, GrpcLimits, HttpLimits]:
    """Those of HTTP, of gRPC and of the metrics port."""
    http, grpc, admin = HttpLimits(), GrpcLimits(), HttpLimits()
    most = ConnectionBounds(
        http=http.max_connections,
        grpc=grpc.max_connections,
        metrics=admin.max_connections,
        turned_away=http.max_turned_away,
    )
    bounds = connection_bounds(raise_descriptor_limit(), most)
    return (
        HttpLimits(max_body_bytes=max_body_bytes, max_connections=bounds.http, max_turned_away=bounds.turned_away),
        GrpcLimits(max_message_bytes=max_body_bytes, max_connections=bounds.grpc),
        HttpLimits(max_connections=bounds.metrics, max_turned_away=bounds.turned_away),
    )


def _tls(arguments: GatewayArguments, *protocols: str) -> ssl.SSLContext | None:
    if arguments.tls_certificate is None or arguments.tls_key is None:
        return None
    client_ca = arguments.tls_client_ca
    return tls_context(arguments.tls_certificate, arguments.tls_key, client_ca=client_ca, protocols=protocols)


async def _main(control_fd: int, arguments: GatewayArguments) -> None:
    channel = await open_to_agent(control_fd)
    try:
        await Gateway(arguments, channel).run()
    except TrilithError as error:
        channel.send(control.Failed(reason=error.message))
        raise SystemExit(1) from error
    finally:
        channel.close()


def main() -> None:
    """Entry point of the process."""
    control_fd, parent, raw = sys.argv[1:]
    die_with_parent(int(parent))
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_main(int(control_fd), msgspec.json.decode(raw, type=GatewayArguments)))


if __name__ == "__main__":
    main()
