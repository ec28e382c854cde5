"""The foreground process of `trilith serve`: holds the listening sockets, starts and supervises everything else.

Rule 1: no user code and no request ever runs here, so that nothing a user does can stop the supervision.
Rule 2: what to do is decided by `reconcile` and `Revisions`; this file observes, carries out, and tells a person.
Rule 3: the order of stopping: the gateway stops accepting and finishes what is in flight (it needs the replicas for
    that); then the replicas are told to stop; what is left after its time is killed. A second signal kills at once.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from trilith.core.backoff import StartBackoff
from trilith.errors import SetupError
from trilith.orchestration.engine import control, narration
from trilith.orchestration.engine.described import Application, revision_of
from trilith.orchestration.engine.launcher import Launcher
from trilith.orchestration.engine.process import ChildProcess
from trilith.orchestration.engine.reload import source_changes, source_folder
from trilith.orchestration.engine.replicas import Replica, ReplicaBook
from trilith.orchestration.engine.terminal import Terminal
from trilith.orchestration.health import silent
from trilith.orchestration.reconcile import Drain, Kill, Limits, Start, reconcile
from trilith.orchestration.revisions import Revision, Revisions
from trilith.orchestration.spec import ServeOptions
from trilith.orchestration.state import ReplicaEvent, ReplicaState

_REMIND_S = 10.0
_GATEWAY = ("", 0)  # its key in the back-off book


class Agent:
    """Runs one server until it is told to stop."""

    def __init__(self, options: ServeOptions, *, terminal: Terminal) -> None:
        """Assigns; `run` begins. `terminal` shows lines to a person."""
        self._options = options
        self._launcher = Launcher(options)
        self._terminal = terminal
        self._tell = terminal.tell
        self._not_ready: list[str] = []  # models of the repository
        self._book = ReplicaBook()
        self._backoff = StartBackoff()
        self._limits = Limits(drain_s=options.drain_s)
        self._revisions: Revisions[Application] = Revisions()
        self._told: set[tuple[int, str]] = set()  # failures whose traceback a person has seen
        self._gateway: ChildProcess | None = None
        self._gateway_since = self._gateway_heard_at = 0.0
        self._stopping = False
        self._exit_code = 0
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake: asyncio.TimerHandle | None = None

    async def run(self) -> int:
        """Serves until SIGTERM, SIGINT or a failure to start; the exit code.

        Raises:
            PortInUse: a port is taken.
            SetupError: an address cannot be used.
        """
        loop = asyncio.get_running_loop()
        with self._launcher:
            for signal_number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(signal_number, self._signalled)
            loop.call_later(_REMIND_S, self._remind)
            self._look_after_gateway()
            await self._start_gateway()
            if not self._launcher.serves_repository:
                await self._start_revision()
                if self._options.reload:
                    self._spawn(self._watch())
            try:
                while not self._stopping:
                    await self._changed.wait()
                    self._changed.clear()
                    if not self._stopping:
                        await self._converge()
            finally:
                await self._stop()
        return self._exit_code

    # Beginning

    async def _start_gateway(self) -> None:
        self._revisions.gateway_started()
        gateway = await self._launcher.start_gateway()
        self._gateway = gateway
        self._gateway_since = self._gateway_heard_at = time.monotonic()
        if not self._revisions.switched:
            self._deploy(self._revisions.serving)  # what serves comes first, and then the change
        self._deploy(self._revisions.wanted)
        for replica in self._book.all():  # it does not know what an earlier gateway was told
            if replica.state is ReplicaState.DRAINING:
                gateway.channel.send(control.RemoveReplica(replica_id=replica.replica_id))
        self._spawn(self._follow_gateway(gateway))

    async def _start_worker(self, service: str, revision: int) -> None:
        replica_id = self._book.new_id()
        known = self._revisions.find(revision)
        cpu = known.content.cpu.get(service) if known is not None else None
        process = await self._launcher.start_worker(service, replica_id=replica_id, revision=revision, cpu=cpu)
        replica = Replica(
            replica_id=replica_id, service=service, revision=revision, process=process, since=time.monotonic()
        )
        self._book.add(replica)
        self._spawn(self._follow_worker(replica))

    async def _start_revision(self) -> None:
        """Starts the seed of a new revision. It becomes the current one when it has described itself."""
        serving = self._revisions.serving
        number = self._revisions.begin()
        try:
            await self._launcher.keep_sources(number, {serving.number} if serving is not None else ())
        except SetupError as error:
            self._tell(error.message)
            if serving is None:
                self._cannot_serve()
            return
        await self._start_worker("", number)

    # Following the children

    async def _follow_gateway(self, gateway: ChildProcess) -> None:
        async for message in gateway.messages():
            self._gateway_heard_at = time.monotonic()
            if isinstance(message, control.GatewayReady):
                self._revisions.gateway_loaded(message.revision)
                self._book.restart_starts(time.monotonic())  # they may have waited for models until now
                for failure in message.failures:
                    self._tell(f"model not available: {failure}")
                self._not_ready = list(dict.fromkeys(row.name for row in message.rows if row.state != "READY"))
                self._terminal.table(message.rows)
                repository = self._options.repository
                serves_all = repository.mode == "none" and not repository.on_demand
                if self._launcher.serves_repository and message.models == 0 and serves_all:
                    folder = self._options.target
                    self._tell(f"there is no model in {folder}: a model is a folder NAME/VERSION/model.onnx")
            elif isinstance(message, control.ModelsLoading):
                self._terminal.loading(message.done, message.total, message.name)
            elif isinstance(message, control.ReplicaIdle):
                replica = self._book.get(message.replica_id)
                if replica is not None and replica.state is ReplicaState.DRAINING:
                    self._order_stop(replica, ReplicaEvent.IDLE)
            elif isinstance(message, control.ReplicaServing):
                replica = self._book.get(message.replica_id)
                if replica is not None and replica.state is ReplicaState.STARTING:
                    self._book.event(replica, ReplicaEvent.READY, time.monotonic())
            elif isinstance(message, control.ReplicaUnwell):
                self._kill(Kill(message.replica_id, message.reason))
            elif isinstance(message, control.Unprepared):
                wanted = self._revisions.wanted
                if wanted is not None and wanted.number == message.revision:
                    self._tell(f"{self._options.target} cannot be served: {message.reason}")
                    self._drop_change()
            elif isinstance(message, control.Failed):
                self._tell(f"the gateway cannot start: {message.reason}")
                self._give_up()
            self._changed.set()
        code = await gateway.wait()
        gateway.channel.close()
        if self._stopping:
            return
        now = time.monotonic()
        served_for_s = now - self._gateway_since if self._revisions.gateway_served else None
        self._backoff.exited(_GATEWAY, ready_for_s=served_for_s, now=now)
        if self._backoff.given_up(_GATEWAY):
            self._tell("the gateway ended again and again; giving up")
            self._give_up()
            return
        self._tell(f"the gateway ended ({narration.cause(code)}); starting another, replicas keep running")
        await asyncio.sleep(max(0.0, self._backoff.not_before(_GATEWAY) - now))
        if not self._stopping:
            await self._start_gateway()
            self._changed.set()

    async def _follow_worker(self, replica: Replica) -> None:
        async for message in replica.process.messages():
            if isinstance(message, control.Described):
                self._adopt_description(replica, message)
            elif isinstance(message, control.Failed):
                replica.failure = message.reason
                who = replica.service or self._options.target
                reason = message.reason if message.reason.startswith(f"{who}: ") else f"{who}: {message.reason}"
                told = (replica.revision, reason)
                self._tell(narration.with_detail(reason, "" if told in self._told else message.detail))
                self._told.add(told)
            self._changed.set()
        code = await replica.process.wait()
        replica.process.channel.close()
        self._launcher.worker_ended(replica.replica_id)
        if self._gateway is not None:
            self._gateway.channel.send(control.ReplicaGone(replica_id=replica.replica_id))
        now = time.monotonic()
        expected = replica.state in (ReplicaState.STOPPING, ReplicaState.DRAINING)
        ready_for_s = None if replica.ready_at is None else now - replica.ready_at
        self._book.event(replica, ReplicaEvent.EXITED, now)
        self._changed.set()
        if self._stopping:
            return
        if not replica.service:
            if not expected or replica.failure:
                self._seed_failed(replica)
            return
        if expected:
            self._check_given_up(replica)  # it may have been killed because it took too long to start
            return
        self._backoff.exited((replica.service, replica.revision), ready_for_s=ready_for_s, now=now)
        self._book.count_restart(replica.service)
        self._tell(f"a replica of {replica.service} (pid {replica.process.pid}) ended: {narration.cause(code)}")
        self._check_given_up(replica)

    def _check_given_up(self, replica: Replica) -> None:
        key = service, revision = replica.service, replica.revision
        wanted = self._revisions.wanted
        if not self._backoff.given_up(key) or wanted is None or revision != wanted.number:
            return  # what is not wanted any more is not missed
        self._tell(f"{service} could not be started {self._backoff.failed_starts(key)} times in a row; giving up")
        if not self._revisions.switched or not self._book.running(service, revision):
            self._drop_change()

    def _drop_change(self) -> None:
        """What is wanted cannot be served: back to what serves, or the end when there is nothing else."""
        wanted = self._revisions.wanted
        if not self._revisions.cannot_start():
            self._cannot_serve()
            return
        self._tell("the change cannot be started; the revision before it keeps serving")
        for entry in wanted.desired if wanted is not None else ():
            self._backoff.forget((entry.service, entry.revision))
        self._deploy(self._revisions.wanted)

    def _seed_failed(self, replica: Replica) -> None:
        """The first worker of a revision died before it could say what the application is."""
        if not replica.failure:
            self._tell(f"{self._options.target}: the worker ended before it had loaded the target")
        if self._revisions.wanted is None:
            self._cannot_serve()
        else:
            self._tell("the change cannot be loaded; the revision before it keeps serving")

    def _adopt_description(self, replica: Replica, described: control.Described) -> None:
        revision = revision_of(described, replica.revision, self._options.replicas)
        wanted = self._revisions.described(revision)
        root = revision.desired[0].service
        if wanted and revision.content.cpu[root] is None:
            replica.service = root
        elif replica.state is ReplicaState.STARTING:
            # It is out of date, or its libraries were loaded without the bound on their threads.
            self._order_stop(replica, ReplicaEvent.DRAIN)
        if not wanted:
            return
        self._deploy(revision)

    def _deploy(self, revision: Revision[Application] | None) -> None:
        if self._gateway is not None and revision is not None:
            described = revision.content.described
            self._gateway.channel.send(
                control.Deploy(
                    description=described.description,
                    revision=revision.number,
                    model_roots=described.model_roots,
                    publish=revision is self._revisions.serving,
                )
            )

    # Converging

    async def _converge(self) -> None:
        plan = reconcile(
            self._revisions.desired,
            self._revisions.kept,
            self._book.observed(),
            switched=self._revisions.switched,
            loading=not self._revisions.loaded,
            backoff=self._backoff,
            limits=self._limits,
            now=time.monotonic(),
        )
        switched = self._revisions.switch(complete=plan.complete) if self._gateway is not None else None
        if self._gateway is not None and switched is not None:
            self._gateway.channel.send(control.Publish(revision=switched.number))
            self._changed.set()  # what the old revision had is drained in the next round
        for action in plan.actions:
            if isinstance(action, Start):
                await self._start_worker(action.service, action.revision)
            elif isinstance(action, Drain):
                self._drain(action.replica_id)
            else:
                self._kill(action)
        if self._gateway is not None:
            self._gateway.channel.send(control.Replicas(replicas=self._book.rows()))
        self._announce()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if plan.wake_at is not None:
            delay_s = max(0.0, plan.wake_at - time.monotonic())
            self._wake = asyncio.get_running_loop().call_later(delay_s, self._changed.set)

    def _drain(self, replica_id: int) -> None:
        replica = self._book.get(replica_id)
        if replica is None:
            return
        if replica.state is ReplicaState.STARTING:
            self._order_stop(replica, ReplicaEvent.DRAIN)
            return
        self._book.event(replica, ReplicaEvent.DRAIN, time.monotonic())
        if self._gateway is not None:
            self._gateway.channel.send(control.RemoveReplica(replica_id=replica_id))

    def _order_stop(self, replica: Replica, event: ReplicaEvent) -> None:
        self._book.event(replica, event, time.monotonic())
        replica.process.channel.send(control.Stop(timeout_s=self._limits.stop_s))

    def _kill(self, action: Kill) -> None:
        replica = self._book.get(action.replica_id)
        if replica is not None:
            name = replica.service or self._options.target
            self._tell(f"killing a replica of {name} (pid {replica.process.pid}): {action.reason}")
            if replica.state is ReplicaState.STARTING:
                replica.failure = action.reason
                self._backoff.exited((replica.service, replica.revision), ready_for_s=None, now=time.monotonic())
            else:
                self._book.count_restart(replica.service)
            self._book.event(replica, ReplicaEvent.KILL, time.monotonic())
            replica.process.kill()

    def _look_after_gateway(self) -> None:
        limit_s, now = self._options.unresponsive_s, time.monotonic()
        gateway = self._gateway
        if gateway is not None and gateway.alive and silent(self._gateway_heard_at, now, limit_s):
            self._tell(
                f"killing the gateway (pid {gateway.pid}): it was not heard for {now - self._gateway_heard_at:.1f} s"
            )
            gateway.kill()
        asyncio.get_running_loop().call_later(limit_s / 4, self._look_after_gateway)

    def _remind(self) -> None:
        """Says every few seconds what a start still waits for: silence looks like a hang."""
        revisions = self._revisions
        if self._stopping or revisions.announced:
            return
        if revisions.wanted is None and not self._launcher.serves_repository:
            waits = f"{self._options.target} is being imported"
        elif not revisions.loaded:
            waits = "models are being loaded"
        else:
            waits = narration.replicas_that_run(revisions.desired, self._book.running)
        self._tell(f"still starting: {waits}")
        asyncio.get_running_loop().call_later(_REMIND_S, self._remind)

    def _announce(self) -> None:
        """Says once a revision that everything is up."""
        if not self._revisions.announce(self._book.running):
            return
        self._tell(
            narration.ready(
                http=self._launcher.http_address,
                grpc=self._launcher.grpc_address,
                metrics=self._launcher.metrics_address,
                tls=bool(self._options.tls_certificate),
                repository=self._launcher.serves_repository,
                desired=self._revisions.desired,
                not_ready=self._not_ready,
            )
        )

    async def _watch(self) -> None:
        folder = source_folder(self._options.target)
        self._tell(f"watching {folder} for changes")
        async for names in source_changes(folder):
            self._tell(f"changed: {', '.join(names)}; starting revision {self._revisions.newest + 1}")
            for replica in self._book.all():  # a seed of an earlier change that is still loading is out of date
                if not replica.service:
                    self._book.event(replica, ReplicaEvent.KILL, time.monotonic())
                    replica.process.kill()
            await self._start_revision()

    # Ending

    def _signalled(self) -> None:
        if self._stopping:
            self._tell("ending at once")
            self._kill_all()
        elif self._revisions.ever_announced:
            self._tell(
                f"stopping; requests in flight get up to {self._options.drain_s:g} s (Ctrl-C again ends them at once)"
            )
        self._stopping = True
        self._changed.set()

    def _cannot_serve(self) -> None:
        """The application cannot serve as it is: with `--reload` the next change may mend it."""
        if self._options.reload:
            self._tell("the application cannot serve as it is; waiting for a change of its files")
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._exit_code = 1
        self._stopping = True
        self._changed.set()

    async def _stop(self) -> None:
        self._stopping = True
        if self._wake is not None:
            self._wake.cancel()
        self._launcher.stop_listening()
        gateway = self._gateway
        if gateway is not None and gateway.alive:
            gateway.channel.send(control.Stop(timeout_s=self._options.drain_s))
            await gateway.end_within(self._options.drain_s + self._limits.stop_s)
        replicas = self._book.all()
        for replica in replicas:
            replica.process.channel.send(control.Stop(timeout_s=self._limits.stop_s))
            if replica.state is ReplicaState.STARTING:
                replica.process.kill()  # it holds no request, and may be in the middle of a long import
        await asyncio.gather(*(r.process.end_within(self._limits.stop_s + 1.0) for r in replicas))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _kill_all(self) -> None:
        for replica in self._book.all():
            replica.process.kill()
        if self._gateway is not None:
            self._gateway.kill()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            self._tell(f"the agent failed: {error!r}")
            self._give_up()


def serve(options: ServeOptions) -> int:
    """Runs a server in the foreground; the exit code.

    Raises:
        SetupError: it cannot be started as asked.
    """
    target = Path(options.target)
    if not (target.exists() or ":" in options.target):
        from trilith.service import parse_target  # it says what there is instead; a good target need not wait for it

        parse_target(options.target)
    return asyncio.run(Agent(options, terminal=Terminal()).run())
