"""The foreground process of `trilith serve`: holds the listening sockets, starts and supervises everything else. Doer.

Rule 1: no user code and no request ever runs here, so that nothing a user does can stop the supervision.
Rule 2: what to do is decided by `Supervision`; this file tells it what happens, and carries out its orders.
Rule 3: the order of stopping: the gateway stops accepting and finishes what is in flight (it needs the replicas for
    that); then the replicas are told to stop; what is left after its time is killed. A second signal kills at once.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from trilith.core.clock import Clock, MonotonicClock
from trilith.core.leftovers import end_leftovers
from trilith.errors import Bug, SetupError
from trilith.orchestration import narration, orders
from trilith.orchestration.engine import control
from trilith.orchestration.engine.children import Children
from trilith.orchestration.engine.described import DeclaredApplication, revision_of
from trilith.orchestration.engine.inline import ENDING, PATIENCE_S, Foreground
from trilith.orchestration.engine.keys_held import HeldKeys, has_terminal
from trilith.orchestration.engine.launcher import Launcher
from trilith.orchestration.engine.meant import what_was_meant
from trilith.orchestration.engine.process import ChildProcess
from trilith.orchestration.engine.reload import source_changes
from trilith.orchestration.engine.terminal import Terminal
from trilith.orchestration.reconcile import SEED, Limits, Start
from trilith.orchestration.spec import ServeOptions
from trilith.orchestration.state import ReplicaState
from trilith.orchestration.supervision import Charge, Supervision

_REMIND_S = 10.0
_Order = orders.Order[DeclaredApplication]


class Agent:
    """Runs one server until it is told to stop."""

    def __init__(
        self,
        options: ServeOptions,
        *,
        terminal: Terminal,
        clock: Clock | None = None,
        foreground: Foreground | None = None,
    ) -> None:
        """Assigns; `run` begins. `terminal` shows lines to a person; `foreground`: replicas run in this process."""
        self._options = options
        self._keys = None if options.api_keys is None else HeldKeys(Path(options.api_keys))
        # `nohup` has a closed terminal mean nothing.
        self._outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or not has_terminal()
        self._foreground = foreground
        self._launcher = Launcher(options, foreground=foreground)
        self._terminal = terminal
        self._tell = terminal.tell
        self._now = (clock or MonotonicClock()).now
        limits = Limits(drain_s=options.drain_s)
        if foreground is not None:
            limits = Limits(drain_s=options.drain_s, start_s=PATIENCE_S)
        self._supervision: Supervision[DeclaredApplication] = Supervision(
            Charge(
                target=options.target,
                application=not self._launcher.serves_repository,
                finds_models=options.repository.mode == "none" and not options.repository.on_demand,
                reload=options.reload,
                unresponsive_s=options.unresponsive_s,
                limits=limits,
            )
        )
        self._children = Children(limits)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting: set[asyncio.Task[None]] = set()  # of them, those that may start a process
        self._wake: asyncio.TimerHandle | None = None

    async def run(self) -> int:
        """Serves until SIGTERM, SIGINT, SIGHUP or a failure to start; the exit code.

        With API keys SIGHUP has their file read again, unless it says that the terminal is closed.

        Raises:
            PortInUse: a port is taken.
            SetupError: an address cannot be used.
        """
        loop = asyncio.get_running_loop()
        with self._launcher:
            for signal_number in () if self._foreground is not None else ENDING:
                rereads = signal_number == signal.SIGHUP and self._keys is not None
                if rereads or signal.getsignal(signal_number) is not signal.SIG_IGN:
                    loop.add_signal_handler(signal_number, self.signalled, signal_number)
            try:
                self._spawn(self._remind())
                self._spawn(self._look_after_gateway())
                await self._start_gateway()
                if not self._launcher.serves_repository:
                    await self._start_revision()
                    if self._options.reload:
                        self._spawn(self._watch(), starts=True)
                while not self._supervision.stopping:
                    await self._changed.wait()
                    self._changed.clear()
                    if not self._supervision.stopping:
                        await self._converge()
            finally:
                await self._stop()
                self._supervision.stopped()
                self._carry_out()
        if self._supervision.wrongly_asked:
            return 2
        return 1 if self._supervision.failed else 0

    # Beginning

    async def _start_gateway(self) -> None:
        self._supervision.gateway_starts()
        try:
            gateway = await self._launcher.start_gateway(quiet_start=self._terminal.is_live)
        except SetupError as error:
            self._supervision.gateway_not_started(error.message, self._now())
            self._happened()
            return
        self._children.gateway = gateway
        self._tell_keys()
        self._supervision.gateway_started(self._now())
        self._happened()
        self._spawn(self._follow_gateway(gateway))

    async def _start_another_gateway(self, not_before: float) -> None:
        await asyncio.sleep(max(0.0, not_before - self._now()))
        if not self._supervision.stopping:
            await self._start_gateway()

    async def _start_worker(self, start: Start) -> None:
        replica_id = self._supervision.book.new_id()
        known = self._supervision.revisions.find(start.revision)
        cpu = known.content.cpu.get(start.service) if known is not None else None
        try:
            worker = await self._launcher.start_worker(
                start.service, replica_id=replica_id, revision=start.revision, cpu=cpu
            )
        except SetupError as error:
            self._supervision.replica_not_started(start, error.message, self._now())
            self._happened()
            return
        self._children.workers[replica_id] = worker
        self._supervision.replica_started(start, replica_id=replica_id, pid=worker.pid, now=self._now())
        self._spawn(self._follow_worker(replica_id, start.revision, worker))

    async def _start_revision(self) -> None:
        """Starts the seed of a new revision. It becomes the current one when it has described itself."""
        revisions = self._supervision.revisions
        number = revisions.begin()
        needed = {revision.number for revision in (revisions.serving, revisions.wanted) if revision is not None}
        try:
            await self._launcher.keep_sources(number, needed)
        except SetupError as error:
            self._supervision.sources_not_kept(error.message)
            self._happened()
            return
        await self._start_worker(Start(SEED, number))

    async def _watch(self) -> None:
        folder = self._launcher.sources
        self._tell(f"watching {folder} for changes")
        async for names in source_changes(folder, self._options.reload_include):
            self._supervision.sources_changed(names, self._now())
            self._carry_out()
            await self._start_revision()

    # Following the children

    async def _follow_gateway(self, gateway: ChildProcess) -> None:
        async for message in gateway.messages():
            self._supervision.gateway_heard(self._now())
            self._gateway_says(message)
            self._happened()
        code = await gateway.wait()
        gateway.channel.close()
        self._supervision.gateway_exited(narration.cause(code), self._now())
        self._happened()

    def _gateway_says(self, message: control.AnyMessage) -> None:
        supervision, now = self._supervision, self._now()
        if isinstance(message, control.GatewayReady):
            failed = dict.fromkeys(row.name for row in message.rows if row.state != "READY")
            none_ready = not any(row.state == "READY" for row in message.rows)
            supervision.gateway_loaded(
                message.revision,
                now,
                not_ready=[*message.not_ready, *failed],
                none_ready=none_ready and bool(failed),
            )
            self._carry_out()
            self._terminal.table(message.rows)
            if none_ready:
                files, repositories = what_was_meant(self._options.target)
                supervision.no_model_found(files, repositories=repositories, broken=message.models > 0)
        elif isinstance(message, control.ModelsLoading):
            if not supervision.stopping:
                self._terminal.loading(message.done, message.total, message.name)
        elif isinstance(message, control.ReplicaIdle):
            supervision.replica_idle(message.replica_id, now)
        elif isinstance(message, control.ReplicaServing):
            supervision.replica_serving(message.replica_id, now)
        elif isinstance(message, control.ReplicaUnwell):
            supervision.replica_unwell(message.replica_id, message.reason, now)
        elif isinstance(message, control.Unprepared):
            supervision.unprepared(message.revision, message.reason)
        elif isinstance(message, control.Failed):
            supervision.gateway_failed(message.reason)

    async def _follow_worker(self, replica_id: int, revision_number: int, worker: ChildProcess) -> None:
        keeps_processes = False
        async for message in worker.messages():
            if isinstance(message, control.Described):
                try:
                    revision = revision_of(message, revision_number, self._options.replicas)
                except Bug as bug:
                    worker.refuse(bug)
                    continue
                self._launcher.described(revision.desired[0].service)
                bounded = revision.content.cpu[revision.desired[0].service] is not None
                self._supervision.described(replica_id, revision, self._now(), bounded=bounded)
            elif isinstance(message, control.Deploying):
                keeps_processes = keeps_processes or message.keeps_processes
                self._supervision.deploying(replica_id, message.what, message.timeout_s, self._now())
            elif isinstance(message, control.Unwell):
                self._supervision.replica_unwell(replica_id, message.reason, self._now())
            elif isinstance(message, control.Failed):
                self._supervision.replica_failed(replica_id, message.reason, message.detail)
            self._happened()
        code = await worker.wait()
        worker.channel.close()
        if keeps_processes and code < 0:  # their keeper ends them, unless it was killed as well
            await asyncio.to_thread(end_leftovers, f"{worker.pid}.")
        del self._children.workers[replica_id]
        self._launcher.worker_ended(replica_id)
        self._children.to_gateway(control.ReplicaGone(replica_id=replica_id))
        self._supervision.replica_exited(replica_id, narration.cause(code), self._now())
        self._happened()

    # Converging

    def _happened(self) -> None:
        """Something did: its orders are carried out, and what is to be done besides is looked for soon."""
        self._carry_out()
        self._changed.set()

    def _carry_out(self) -> None:
        for order in self._supervision.take_orders():
            self._obey(order)

    async def _converge(self) -> None:
        steps, wake_at = self._supervision.converge(self._now())
        for step in steps:
            if isinstance(step, Start):
                await self._start_worker(step)
            else:
                self._obey(step)
        self._children.to_gateway(control.Replicas(replicas=self._rows()))
        self._supervision.announce()
        self._carry_out()
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if wake_at is not None:
            delay_s = max(0.0, wake_at - self._now())
            self._wake = asyncio.get_running_loop().call_later(delay_s, self._changed.set)

    def _obey(self, order: _Order) -> None:
        match order:
            case orders.Tell():
                self._tell(order.line, order.level, order.detail)
            case orders.Announce():
                self._announce(order)
            case orders.StartGateway():
                self._spawn(self._start_another_gateway(order.not_before), starts=True)
            case _:
                self._children.obey(order)

    def _rows(self) -> list[control.ReplicaRow]:
        book = self._supervision.book
        return [
            control.ReplicaRow(
                replica_id=replica.replica_id,
                service=replica.service,
                revision=replica.revision,
                state=str(replica.state),
                pid=replica.pid,
                restarts=book.restarts(replica.service),
            )
            for replica in book.all()
        ]

    def _announce(self, order: orders.Announce) -> None:
        serving = self._supervision.revisions.serving
        self._tell(
            narration.ready(
                http=self._launcher.http_address,
                grpc=self._launcher.grpc_address,
                metrics=self._launcher.metrics_address,
                tls=bool(self._options.tls_certificate),
                repository=self._launcher.serves_repository,
                desired=order.desired,
                not_ready=order.not_ready,
                none_ready=order.none_ready,
                mounts=() if serving is None else serving.content.mounts,
                methods=serving is None or serving.content.methods,
                docs_need_key=self._keys is not None and not self._keys.docs_are_public,
            ),
            "warning" if order.not_ready else "info",
        )
        self._terminal.started()
        if self._options.reload:
            self._spawn(self._keep_spares(), starts=True)

    async def _keep_spares(self) -> None:
        """Starts what the next change needs, now that this one is up and has the processor no more."""
        serving = self._supervision.revisions.serving
        if serving is None:
            return
        bounds = list(serving.content.cpu.values())
        # The seed comes first, without a bound. It becomes a replica of the root, unless that has one.
        wanted = [None, *(bounds if bounds[0] is not None else bounds[1:])]
        await self._launcher.keep_spares(wanted, serving.content.described.libraries)

    async def _look_after_gateway(self) -> None:
        while True:
            gateway = self._children.gateway
            if gateway is not None:
                self._supervision.look_at_gateway(gateway.pid, self._now())
                self._carry_out()
            await asyncio.sleep(self._options.unresponsive_s / 4)

    async def _remind(self) -> None:
        await asyncio.sleep(_REMIND_S)
        while self._supervision.remind():
            self._carry_out()
            await asyncio.sleep(_REMIND_S)

    # Ending

    def signalled(self, number: signal.Signals) -> None:
        """A signal came. On the agent's loop."""
        if number == signal.SIGHUP and self._supervision.stopping:
            return  # a terminal that closes says so several times; who wants the end at once says something else
        if number == signal.SIGHUP and self._keys is not None and (self._outlives_terminal or has_terminal()):
            self._spawn(self._read_keys_again(self._keys))
            return
        self._supervision.stop(self._now(), terminated=number != signal.SIGINT)
        self._terminal.stopping()
        self._happened()

    def _tell_keys(self) -> None:
        if self._keys is not None:
            self._children.to_gateway(control.Keys(ring=self._keys.ring))

    async def _read_keys_again(self, keys: HeldKeys) -> None:
        self._tell(*await keys.read_again())
        self._tell_keys()

    async def _stop(self) -> None:
        self._supervision.ends()
        if self._wake is not None:
            self._wake.cancel()
        await _cancel(self._starting)  # from here on the children are those that there are
        self._launcher.stop_listening()
        book = self._supervision.book
        await self._launcher.end_spares()
        await self._children.end({r.replica_id for r in book.all() if r.state is ReplicaState.STARTING})
        await _cancel(self._tasks)

    def _spawn(self, work: Coroutine[Any, Any, None], *, starts: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        if starts:
            self._starting.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._starting.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._supervision.agent_failed(error)
            self._happened()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
