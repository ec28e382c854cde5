"""The gateway process: both protocol fronts, the node's runtime, the router. One uvloop thread, no user code.

Rule: this file wires; what a request meets on its way stands in `front`, `worker_desk`, `router`, `batching`,
    `model_calls`, `sinks`; what the gateway itself answers in `own_pages`.

Started by the agent as `python -P -m trilith.orchestration.engine.gateway NAME CONTROL_FD PARENT_PID ARGUMENTS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import ssl
import sys
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from trilith.core.collector import settle_collector, watch_growth
from trilith.core.lifeline import die_with_parent
from trilith.core.logs import configure_logging
from trilith.errors import NoReadyReplica, SetupError, TrilithError, UnknownReference
from trilith.net.grpc import GrpcLimits, GrpcServer
from trilith.net.held_bytes import HeldBytes
from trilith.net.http1 import HttpLimits, HttpServer, tls_context
from trilith.net.transport import Listener
from trilith.orchestration.connections import ConnectionBounds, connection_bounds
from trilith.orchestration.engine import control
from trilith.orchestration.engine.access_hook import AccessHook
from trilith.orchestration.engine.access_metrics import counted_desk
from trilith.orchestration.engine.application import ServedApplication, read_application
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.control_channel import ControlChannel
from trilith.orchestration.engine.doors import front_doors
from trilith.orchestration.engine.front import HttpFront
from trilith.orchestration.engine.grpc_front import GrpcFront
from trilith.orchestration.engine.launch import GatewayArguments
from trilith.orchestration.engine.model_calls import ModelDesk
from trilith.orchestration.engine.model_rows import model_rows, runtime_config
from trilith.orchestration.engine.node_models import NodeModels
from trilith.orchestration.engine.own_pages import OwnPages
from trilith.orchestration.engine.platform_door import PlatformDoor
from trilith.orchestration.engine.process import open_to_agent, raise_descriptor_limit
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.server_metrics import held_source, server_source
from trilith.orchestration.engine.service_metrics import ServiceMetrics
from trilith.orchestration.engine.tracer import Tracer
from trilith.orchestration.engine.worker_desk import WorkerDesk
from trilith.orchestration.gateway_watch import show_life_every_s
from trilith.orchestration.known_revisions import KnownRevisions
from trilith.runtime import Runtime
from trilith.runtime.protocol import OipGrpc, OipHttp, OipServices, model_source
from trilith.service import ACCESS_METHOD, ACCESS_SERVICE
from trilith.telemetry import HostMetrics, Metrics, ProgramMetrics, RequestMetrics, TimelineShelf
from trilith.wire.oip_options import GrpcConnections, infer_compressions

_log: Final = logging.getLogger("trilith.gateway")
_RUNTIME_LOG: Final = "trilith.runtime"
_PAST_DRAIN_S: Final = 0.5  # for what ends when the drain time is over already; the agent kills a second after it
_LAST_TRACES_S: Final = 0.5
_GIVEN_UP_S: Final = 1.0  # for the threads of loads that were given up, once every model has ended
_PEER_GRANT = 4096  # calls that one replica may have at the gateway; their own queues bound them earlier


class Gateway:
    """One gateway. `run` serves until the agent says stop."""

    def __init__(self, arguments: GatewayArguments, channel: ControlChannel) -> None:
        self._arguments = arguments
        self._channel = channel
        self._metrics = Metrics()
        self._service_metrics = ServiceMetrics(self._metrics)
        self._tracer = Tracer(arguments.traces, self._metrics) if arguments.traces.endpoint else None
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
            observe=self._service_metrics.observe if self._tracer is None else self._observe_traced,
            observe_batch=self._service_metrics.observe_batch,
            on_idle=lambda replica_id: channel.send(control.ReplicaIdle(replica_id=replica_id)),
            on_unwell=lambda replica_id, why: channel.send(control.ReplicaUnwell(replica_id=replica_id, reason=why)),
            unresponsive_s=arguments.unresponsive_s,
        )
        self._hook = AccessHook(self._router, cache_s=arguments.access_cache_s) if arguments.asks_access else None
        self._node_models = NodeModels(self._runtime)
        self._revisions: KnownRevisions[ServedApplication] = KnownRevisions()
        self._programs = ProgramMetrics()
        self._workers = WorkerDesk(
            self._router,
            self._models,
            self._revisions,
            self._programs,
            on_serving=lambda replica_id: channel.send(control.ReplicaServing(replica_id=replica_id)),
        )
        self._access = counted_desk(self._metrics) if arguments.has_keys else None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serves; returns when it is drained."""
        arguments = self._arguments
        requests = RequestMetrics(self._metrics)
        self._metrics.add_source(model_source(self._runtime, arguments.repository.shown_metrics))
        self._metrics.add_source(HostMetrics())
        self._metrics.add_source(self._programs)
        timelines = TimelineShelf()
        oip_http = OipHttp(
            self._runtime,
            metrics=requests,
            timelines=timelines,
            tracer=self._tracer,
            options=arguments.protocol,
            has_clients=bool(arguments.repositories),
        )
        oip_grpc = OipGrpc(
            self._runtime, metrics=requests, timelines=timelines, tracer=self._tracer, options=arguments.protocol
        )
        self._front = front = HttpFront(
            self._router,
            models=oip_http,
            timelines=timelines,
            stream_keep_alive_s=arguments.stream_keep_alive_s,
            tracer=self._tracer,
            websocket_origins=arguments.cors,
        )
        front.starting = not arguments.repositories
        self._pages = OwnPages(
            front,
            self._router,
            self._runtime,
            self._metrics,
            application_comes=not arguments.repositories,
            keys=arguments.has_keys,
        )
        http_limits, grpc_limits, admin_limits = _limits(
            arguments.max_body_bytes, arguments.stream_keep_alive_s or math.inf, arguments.protocol.grpc_connections
        )
        self._grpc_front = GrpcFront(
            self._router,
            models=oip_grpc,
            timelines=timelines,
            compressions=infer_compressions(arguments.protocol.grpc_compression),
            tracer=self._tracer,
        )
        self._grpc_front.starting = not arguments.repositories
        door = front_doors(arguments, front, self._grpc_front, desk=self._access, hook=self._hook)
        held = _held(arguments)
        platforms = arguments.protocol.platforms
        http = HttpServer(
            PlatformDoor(door.app, platforms, self._model_names) if platforms else door.app,
            held=held,
            limits=http_limits,
            ssl=_tls(arguments, "h2", "http/1.1"),
            error_form=oip_http.error_form,
            answer_headers=door.answer_headers,
        )
        self._services = services = OipServices(oip_grpc, self._runtime, front=self._grpc_front)
        grpc = GrpcServer(
            door.asking(services),
            held=held,
            streaming=services.streaming,
            admit=door.admit,
            limits=grpc_limits,
            ssl=_tls(arguments, "h2"),
        )
        admin = HttpServer(self._pages.admin, limits=admin_limits)
        self._metrics.add_source(held_source(held))
        listener = Listener(self._workers.connected, grant=_PEER_GRANT)
        self._service_metrics.watch(self._router)
        self._metrics.add_source(server_source(http.statistics, grpc.statistics))
        self._show_life()
        self._router.start()
        if self._tracer is not None:
            self._tracer.start()
        loading = asyncio.get_running_loop().create_task(
            self._runtime.__aenter__()
        )  # before anybody can ask for models
        listener.start(socket.socket(fileno=arguments.peers_fd))
        await admin.start(sockets=[socket.socket(fileno=fd) for fd in arguments.metrics_fds])
        await http.start(sockets=[socket.socket(fileno=fd) for fd in arguments.http_fds])
        await grpc.start(sockets=[socket.socket(fileno=fd) for fd in arguments.grpc_fds])
        watch_growth(asyncio.get_running_loop())
        obeying = asyncio.get_running_loop().create_task(self._obey(loading))
        await asyncio.wait({obeying, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not obeying.done():
            await loading
            if arguments.repositories:
                settle_collector()
                failures = _failures(self._runtime)
                if failures and arguments.repository.exit_on_error:
                    await self._runtime.__aexit__(None, None, None)
                    raise SetupError(f"--exit-on-error, and a model cannot be loaded: {_each(failures)}")
                self._channel.send(self._loaded(0, ()))
        timeout_s = await obeying
        ends_at = asyncio.get_running_loop().time() + timeout_s
        # Stop accepting and finish what is in flight on both fronts; replicas and runtime serve meanwhile.
        front.draining = oip_http.exiting = oip_grpc.exiting = True
        await asyncio.gather(http.drain(timeout_s), grpc.drain(timeout_s))
        await admin.drain(0.0)
        listener.close()
        self._workers.leave()
        self._router.stop()
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close, _LAST_TRACES_S)
        await self._end_runtime(loading, ends_at)

    def _observe_traced(self, call: PendingCall, error: TrilithError | None) -> None:
        self._service_metrics.observe(call, error)
        if self._tracer is not None:
            self._tracer.finish(call, error)

    def _model_names(self) -> list[str]:
        return [model.name for model in self._runtime.models()]

    def _show_life(self) -> None:
        self._channel.send(control.Alive())
        asyncio.get_running_loop().call_later(show_life_every_s(self._arguments.unresponsive_s), self._show_life)

    async def _end_runtime(self, loading: asyncio.Task[Runtime], ends_at: float) -> None:
        """Unloads the models: what serves finalizes, what loads is given up. What hangs ends with the process."""
        loop = asyncio.get_running_loop()
        leaving = loop.create_task(self._leave_runtime(loading))
        ended = loop.create_task(self._runtime.models_ended.wait())
        limit_s = max(0.0, ends_at - loop.time()) + _PAST_DRAIN_S
        await asyncio.wait({leaving, ended}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            limit_s = min(_GIVEN_UP_S, max(0.0, ends_at - loop.time()) + _PAST_DRAIN_S / 2)
            await asyncio.wait({leaving}, timeout=limit_s)  # a load in a thread cannot be interrupted
        if leaving.done():
            ended.cancel()
            await leaving
            return
        if not ended.done():
            _log.warning("the models have not ended within %.1f s, and are left behind", limit_s)
        await self._channel.flush()
        os._exit(0)

    async def _leave_runtime(self, loading: asyncio.Task[Runtime]) -> None:
        begun = [*self._tasks, *(() if loading.done() else (loading,))]
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        await self._runtime.__aexit__(None, None, None)

    # The agent's orders

    async def _obey(self, loading: asyncio.Task[Runtime]) -> float:
        """Follows the agent until it says stop (or is gone); seconds that requests in flight get."""
        async for message in self._channel.messages():
            if isinstance(message, control.Deploy):
                self._spawn(self._prepare(message, loading))
            elif isinstance(message, control.Publish):
                prepared = self._revisions.prepared
                if prepared is not None and prepared.revision == message.revision:
                    self._publish_prepared(prepared)
            elif isinstance(message, control.RemoveReplica):
                self._router.remove(message.replica_id)
            elif isinstance(message, control.ReplicaGone):
                self._router.gone(message.replica_id)
                self._spawn(self._trim_models())
            elif isinstance(message, control.Keys):
                if self._access is not None:
                    self._access.use(message.ring, time.monotonic())
            elif isinstance(message, control.Replicas):
                self._pages.rows = message.replicas
            elif isinstance(message, control.Stop):
                return message.timeout_s
        return 0.0

    async def _prepare(self, order: control.Deploy, loading: asyncio.Task[Runtime]) -> None:
        """Loads the models of a revision; the one that is served goes on meanwhile."""
        try:
            application = read_application(order.description, order.revision)
            self._revisions.prepare(application)
            self._workers.announced(application.revision)
            if order.publish:
                self._publish(application)
            await asyncio.shield(loading)
            await self._node_models.load(application.models, order.model_roots)
        except UnknownReference as error:
            self._give_up(order.revision, error.message)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this revision, not those that serve
            _log.exception("getting revision %s ready failed", order.revision)
            self._give_up(order.revision, repr(error))
            return
        if order.publish:
            settle_collector()
        self._models.prepared(order.revision)
        self._channel.send(self._loaded(order.revision, application.models))

    def _publish_prepared(self, application: ServedApplication) -> None:
        try:
            self._publish(application)
        except Exception as error:  # noqa: BLE001 - as in `_prepare`
            _log.exception("publishing revision %s failed", application.revision)
            self._give_up(application.revision, repr(error))
            return
        self._spawn(self._trim_models())

    def _give_up(self, revision: int, reason: str) -> None:
        self._channel.send(control.Unprepared(revision=revision, reason=reason))
        unprepared = NoReadyReplica(f"revision {revision} of the application could not be made ready: {reason}")
        self._workers.given_up(revision, unprepared)

    async def _trim_models(self) -> None:
        """Unloads what neither the served and the next revision need, nor a replica that is still connected."""
        needed = self._revisions.needed(self._connected_revisions())
        await self._node_models.keep_only({model for application in needed for model in application.models})

    def _connected_revisions(self) -> set[int]:
        return {link.revision for deployment in self._router.deployments for link in deployment.everyone}

    def _loaded(self, revision: int, models: Iterable[str]) -> control.GatewayReady:
        logging.getLogger(_RUNTIME_LOG).setLevel(logging.NOTSET)  # the start is over
        serving = {model.name for model in self._runtime.models() if model.ready}
        return control.GatewayReady(
            revision=revision,
            models=len(self._runtime.models()),
            not_ready=[name for name in models if name not in serving],
            rows=model_rows(self._runtime) if self._arguments.repositories else [],
        )

    def _show_loading(self, done: int, total: int, name: str) -> None:
        self._channel.send(control.ModelsLoading(done=done, total=total, name=name))

    def _publish(self, application: ServedApplication) -> None:
        """Calls go to this revision from now on."""
        self._revisions.publish(application, self._connected_revisions())
        self._pages.application = application
        if self._hook is not None:
            self._hook.route = application.methods.get((ACCESS_SERVICE, ACCESS_METHOD))
        services = [service.name for service in application.description.services]
        self._router.publish(application.revision, services, application.methods.values())
        self._workers.announced(application.revision)
        self._front.serve_methods(application.paths, application.mounts)
        self._grpc_front.serve(application.grpc)
        self._services.show(application.grpc.descriptors, application.grpc.streaming)
        self._front.starting = self._grpc_front.starting = False

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the gateway failed", exc_info=task.exception())


def _each(failures: list[str]) -> str:
    """One beside the words, several below them, a line each."""
    return failures[0] if len(failures) == 1 else "".join(f"\n  {failure}" for failure in failures)


def _failures(runtime: Runtime) -> list[str]:
    return [f"{model.name}: {model.reason}" for model in runtime.models() if model.reason and not model.ready]


def _limits(
    max_body_bytes: int, ping_s: float, connections: GrpcConnections
) -> tuple[HttpLimits, GrpcLimits, HttpLimits]:
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
        HttpLimits(
            max_body_bytes=max_body_bytes,
            max_connections=bounds.http,
            max_turned_away=bounds.turned_away,
            websocket_ping_s=ping_s,
        ),
        GrpcLimits(
            max_message_bytes=max_body_bytes,
            max_connections=bounds.grpc,
            keepalive_interval_s=connections.keepalive_interval_s,
            keepalive_timeout_s=connections.keepalive_timeout_s,
            min_ping_interval_s=connections.min_ping_interval_s,
            max_ping_strikes=connections.max_ping_strikes or sys.maxsize,
            max_connection_age_s=connections.max_age_s,
            max_connection_age_grace_s=connections.max_age_grace_s,
        ),
        HttpLimits(max_connections=bounds.metrics, max_turned_away=bounds.turned_away),
    )


def _held(arguments: GatewayArguments) -> HeldBytes:
    """The bound on what is kept for clients; one of them may have the two longest requests in any case."""
    limit = arguments.max_held_bytes
    return HeldBytes(limit, max(limit // 4, 2 * arguments.max_body_bytes))


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
        await channel.flush()
        raise SystemExit(1) from error
    finally:
        channel.close()


def main() -> None:
    """Entry point of the process."""
    _, control_fd, parent, raw = sys.argv[1:]  # the first one is for people
    die_with_parent(int(parent))
    arguments = msgspec.json.decode(raw, type=GatewayArguments)
    configure_logging(arguments.log)
    if arguments.quiet_start:
        logging.getLogger(_RUNTIME_LOG).setLevel(logging.WARNING)
    with contextlib.suppress(KeyboardInterrupt):  # who pressed Ctrl-C wants no traceback
        uvloop.run(_main(int(control_fd), arguments))


if __name__ == "__main__":
    main()
