"""A worker process: one replica of one service. The only process in which a user's Python code runs.

Rule 1: the order of a start: load the target, (the root's worker) describe it to the agent, connect to the gateway,
    construct and enter the service, then say hello. Calls come after that.
Rule 2: the order of a stop: the gateway has stopped sending; finish what runs (or end it, when its time is over), stop
    the host, exit.
Rule 3: when the gateway dies, the worker keeps running and says hello to the next one.

Started by the agent as `python -P -m trilith.orchestration.engine.worker NAME CONTROL_FD PARENT_PID ARGUMENTS`.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from trilith.core import forks
from trilith.core.collector import settle_collector, watch_growth
from trilith.core.lifeline import die_with_parent
from trilith.core.logs import configure_logging
from trilith.errors import SetupError, TrilithError
from trilith.net.transport import LostCall, Peer, connect
from trilith.orchestration.engine import control
from trilith.orchestration.engine.control_channel import ControlChannel
from trilith.orchestration.engine.counting import CountingReplica
from trilith.orchestration.engine.hello import LEAVING, Hello, Join, Readiness, decode_crowded
from trilith.orchestration.engine.inline import PATIENCE_S, patient_description
from trilith.orchestration.engine.launch import WorkerArguments
from trilith.orchestration.engine.loop_watch import LoopWatch
from trilith.orchestration.engine.process import open_to_agent, raise_descriptor_limit
from trilith.orchestration.engine.remote import GatewayLink, RemoteResolver
from trilith.orchestration.engine.replica_health import ReplicaHealth
from trilith.orchestration.engine.served_calls import ServedCalls
from trilith.orchestration.engine.snapshot import use_snapshot
from trilith.orchestration.engine.spare import libraries_of
from trilith.orchestration.engine.tracebacks import users_traceback
from trilith.runtime import default_roots
from trilith.service import (
    ACCESS_SERVICE,
    ServiceHost,
    ServiceSpec,
    access_service,
    access_spec,
    apply_settings,
    deploy_hooks,
    describe,
    load_named,
    load_target,
    run_deploy_hook,
    service_graph,
    spec_of,
    with_access,
)
from trilith.telemetry import DataLog, instruments
from trilith.telemetry.data_log import use as use_data_log

_LEAVE_S = 5.0  # for leaving the instance when nobody says how long
_RECONNECT_S = 0.05
_ANSWERS_WITHIN_S = 0.2  # of errors, once the process of a command has ended


class _Process:
    """This one. `modules`: those of Trilith alone, before the application's."""

    modules: frozenset[str] = frozenset()


_process: Final = _Process()


class Worker:
    """One replica."""

    def __init__(self, arguments: WorkerArguments, channel: ControlChannel, *, inline: bool = False) -> None:
        """`inline`: it has no process of its own (see `inline`)."""
        self._arguments = arguments
        self._inline = inline
        self._channel = channel
        self._link = GatewayLink()
        self._lost = asyncio.Event()
        self._peer: Peer | None = None

    async def run(self) -> None:
        """Serves until the agent says stop.

        Raises:
            TrilithError: the service cannot be started; the message is for a person.
        """
        snapshot, here = self._arguments.snapshot, Path(self._arguments.folder)
        is_file = use_snapshot(Path(snapshot)) if snapshot else Path.is_file
        forks.watch_loop(asyncio.get_running_loop())
        variables = dict(os.environ)
        target = load_target(self._arguments.target, folder=here, is_file=is_file)
        forks.end_if_forked()
        root = spec_of(target)
        settings = self._arguments.settings
        apply_settings(service_graph(root), settings.services, settings.models)
        access = self._access(is_file)
        roots = self._model_roots(Path(inspect.getfile(root.target)).parent)
        spec = self._spec(root, access)
        if not self._arguments.service:
            await self._deploy(root)
            described = describe(target) if access is None else with_access(describe(target), access)
            if self._inline:
                described = patient_description(described)
            description = msgspec.Raw(msgspec.json.encode(described))
            # Who sets variables may mean libraries that read them when they are imported: none in advance.
            libraries = libraries_of(sys.modules, _process.modules) if variables == dict(os.environ) else []
            self._channel.send(control.Described(description=description, model_roots=roots, libraries=libraries))
            if root.options.cpu is not None and not self._inline:
                # Native libraries read the bound on their threads when they are loaded, and the target has loaded them
                # without it. The agent starts the replicas anew, with the bound.
                await self._channel.flush()
                return
        self._name = spec.name
        self._host = ServiceHost(
            spec.target,
            RemoteResolver(self._link, roots),
            debug=self._arguments.debug,
            uploads=Path(self._arguments.uploads),
            least_timeout_s=PATIENCE_S if self._inline else 0.0,
            stream_keep_alive_s=self._arguments.stream_keep_alive_s,
        )
        self._served = ServedCalls(self._host)
        self._counting = CountingReplica(
            instruments, replica_id=self._arguments.replica_id, revision=self._arguments.revision
        )
        data_log = self._open_data_log()
        peer = await self._connect()
        if spec.command is not None:
            self._channel.send(
                control.Deploying(
                    what=f"the command of {spec.name}",
                    timeout_s=spec.command.start_timeout_s,
                    keeps_processes=True,
                )
            )
        await self._host.start()
        command = self._host.command
        if command is not None:
            self._channel.send(control.Deploying(what="", timeout_s=0.0))
        ends_at = math.inf
        keeper: asyncio.Task[None] | None = None
        self._health = ReplicaHealth(
            self._host.spec,
            self._host.instance,
            on_ready=self._tell_readiness,
            on_dead=self._tell_death,
            command=command,
            parts=self._host.why_not if spec.mounts or spec.options.middleware else None,
        )
        watch: asyncio.Task[None] | None = None
        loop_watch = LoopWatch(self._name, lambda: self._host.in_flight, self._host.method_of)
        try:
            if not self._inline:
                await self._health.until_ready()
            if not self._inline:
                settle_collector()
                watch_growth(asyncio.get_running_loop())
                loop_watch.start()
            self._hello(peer)
            if command is not None:
                command.watch(self._command_ended)
            if self._health.has_a_say and not self._inline:  # who looks at it in a debugger has it stand still
                watch = asyncio.get_running_loop().create_task(self._health.watch())
            keeper = asyncio.get_running_loop().create_task(self._keep_connected())
            stop = await self._wait_stop()
            loop_watch.stop()
            timeout_s = stop.timeout_s
            ends_at = time.monotonic() + timeout_s
            keeper.cancel()
            if watch is not None:
                watch.cancel()  # it would invite calls again
            if stop.at_once:
                timeout_s /= 4
                await self._host.end_calls(timeout_s)
            if data_log is not None:
                await asyncio.to_thread(data_log.close, min(_LEAVE_S, timeout_s) / 4)
            self._counting.close()
            if self._peer is not None:
                await self._peer.close(timeout_s)
        finally:
            for task in (keeper, watch):
                if task is not None:
                    task.cancel()
            leave_s = _LEAVE_S if spec.command is None else _LEAVE_S + spec.command.stop_timeout_s
            await self._host.stop(min(leave_s, max(0.0, ends_at - time.monotonic())))

    async def _deploy(self, root: ServiceSpec) -> None:
        """What is done once for each revision, before it is described and its replicas start."""
        hooks = deploy_hooks(service_graph(root))
        for hook in hooks:
            self._channel.send(control.Deploying(what=hook.where, timeout_s=hook.timeout_s))
            await run_deploy_hook(hook)
            forks.end_if_forked()
        if hooks:
            self._channel.send(control.Deploying(what="", timeout_s=0.0))

    def _tell_readiness(self, why_not: str) -> None:
        if self._peer is not None:
            self._peer.grant = 0 if why_not else self._host.spec.concurrency
            self._peer.notify(
                msgspec.msgpack.encode(Readiness(replica_id=self._arguments.replica_id, why_not=why_not[:1000]))
            )

    def _tell_death(self, reason: str) -> None:
        self._channel.send(control.Unwell(reason=reason))

    def _command_ended(self, reason: str) -> None:
        """The requests that its process held get their answers first; new ones go elsewhere."""
        self._tell_readiness(reason)
        asyncio.get_running_loop().call_later(_ANSWERS_WITHIN_S, self._tell_death, reason)

    def _open_data_log(self) -> DataLog | None:
        options = self._arguments.data_log
        if not options.folder:
            return None
        found = DataLog(options, service=self._name, replica_id=self._arguments.replica_id)
        use_data_log(found)
        return found

    def _model_roots(self, folder: Path) -> list[str]:
        given = [Path(root) for root in self._arguments.model_roots]
        return [str(root) for root in default_roots(folder, given, here=Path(self._arguments.folder))]

    def _access(self, is_file: Callable[[Path], bool]) -> object | None:
        """The service of the access function, when there is one."""
        target = self._arguments.access
        if not target:
            return None
        found = load_named(target, folder=Path(self._arguments.folder), is_file=is_file)
        forks.end_if_forked()
        access: object = access_service(found, target)
        return access

    def _spec(self, root: ServiceSpec, access: object | None) -> ServiceSpec:
        wanted = self._arguments.service
        if not wanted:
            return root
        found = {spec.name: spec for spec in service_graph(root)}
        if access is not None:
            found[ACCESS_SERVICE] = access_spec(access)
        if wanted not in found:
            raise SetupError(f"{self._arguments.target} has no service {wanted!r}; it has {', '.join(found)}")
        return found[wanted]

    # The gateway

    async def _connect(self) -> Peer:
        """Connects with a grant of 0: no calls before hello."""
        self._lost.clear()
        peer = await connect(self._arguments.peers_path, grant=0, prepare=self._prepare)
        self._peer = peer
        peer.notify(msgspec.msgpack.encode(Join(revision=self._arguments.revision)))
        self._link.use(peer)
        self._counting.use(peer)
        return peer

    def _prepare(self, peer: Peer) -> None:
        peer.on_call = self._served.called
        peer.on_lost = self._disconnected
        peer.on_notice = self._noticed

    def _noticed(self, notice: bytes) -> None:
        if notice == LEAVING:
            self._link.gateway_leaves()
        else:
            self._host.crowding.others_wait(decode_crowded(notice).waiting)

    def _disconnected(self, calls: list[LostCall]) -> None:
        self._peer = None
        self._counting.use(None)
        self._link.lose()
        self._lost.set()

    def _hello(self, peer: Peer) -> None:
        hello = Hello(
            replica_id=self._arguments.replica_id,
            service=self._name,
            revision=self._arguments.revision,
            pid=os.getpid(),
        )
        peer.grant = self._host.spec.concurrency  # first, so that the gateway knows it when it learns who is there
        peer.notify(msgspec.msgpack.encode(hello))
        if self._health.not_ready:
            self._tell_readiness(self._health.not_ready)

    async def _keep_connected(self) -> None:
        while True:
            await self._lost.wait()
            try:
                self._hello(await self._connect())
            except SetupError:
                await asyncio.sleep(_RECONNECT_S)  # the agent is starting another gateway

    async def _wait_stop(self) -> control.Stop:
        async for message in self._channel.messages():
            if isinstance(message, control.Stop):
                return message
        return control.Stop(timeout_s=0.0, at_once=True)  # the agent is gone


async def _main(control_fd: int, arguments: WorkerArguments) -> None:
    channel = await open_to_agent(control_fd)
    try:
        await Worker(arguments, channel).run()
    except TrilithError as error:
        await _tell(channel, error)
        raise SystemExit(1) from error
    finally:
        channel.close()


async def _tell(channel: ControlChannel, error: TrilithError) -> None:
    """Tells the agent why it cannot serve."""
    cause = error.__cause__
    detail = users_traceback(cause) if cause is not None else ""
    channel.send(control.Failed(reason=error.message, detail=detail))
    await channel.flush()


async def run_inline(arguments: WorkerArguments, channel: ControlChannel) -> int:
    """Runs a replica in this process, on this loop; what its process would exit with."""
    try:
        await Worker(arguments, channel, inline=True).run()
    except TrilithError as error:
        await _tell(channel, error)
        return 1
    return 0


def quiet_libraries() -> None:
    """Of each form or picture that is none its parser warns; the client is told, and does not get to write our log."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module=r"PIL\.")


def prepare_process(control_fd: int, parent: int) -> None:
    """What a worker process does first, before any module but Trilith's is imported."""
    die_with_parent(parent)
    raise_descriptor_limit()
    forks.guard(control_fd)
    forks.confine_forks()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what a service prints is seen when it is printed
    _process.modules = frozenset(sys.modules)


def serve(control_fd: int, arguments: WorkerArguments) -> None:
    """Runs a replica until the agent says stop."""
    configure_logging(arguments.log)
    quiet_libraries()
    uvloop.run(_main(control_fd, arguments))


def main() -> None:
    """Entry point of the process."""
    _, control_fd, parent, raw = sys.argv[1:]  # the first one is for people
    prepare_process(int(control_fd), int(parent))
    serve(int(control_fd), msgspec.json.decode(raw, type=WorkerArguments))


if __name__ == "__main__":
    main()
