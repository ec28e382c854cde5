"""What a server's agent does about everything that happens to its processes. Pure: instants are arguments.

Rule 1: each event is one method; what follows of it is among the orders, which the engine takes and carries out.
Rule 2: a replica is moved in the book when the order for it is given, so that no order meets a state it was not for.
Rule 3: a change that cannot be loaded or started never ends what serves. When nothing serves, that is the end, unless
    sources are watched: then the next change may mend it.
Rule 4: one that ends is replaced; one that cannot start is tried again ever more slowly, and then no more.

Which replicas are wanted is `reconcile`'s to say, which revision serves `Revisions`', when the gateway is started again
`GatewayWatch`'s; here they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from trilith.core.backoff import StartBackoff
from trilith.core.log_options import LogLevel
from trilith.core.plain_numbers import plain_number
from trilith.orchestration import narration
from trilith.orchestration.gateway_watch import GatewayWatch
from trilith.orchestration.orders import (
    Announce,
    Content,
    DeployRevision,
    KillAll,
    KillGateway,
    KillReplica,
    Order,
    PublishRevision,
    StartGateway,
    StopReplica,
    Tell,
    WithdrawReplica,
)
from trilith.orchestration.reconcile import SEED, Drain, Limits, Start, Stop, reconcile
from trilith.orchestration.replicas import Replica, ReplicaBook
from trilith.orchestration.revisions import Revision, Revisions
from trilith.orchestration.seen_failures import SeenFailures
from trilith.orchestration.state import ReplicaEvent, ReplicaState

_SAME_SIGNAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What is supervised.

    Attributes:
        target: what is served, as the user named it.
        application: it is a service, which has to be loaded to be known; otherwise a folder of models.
        finds_models: every model of the folder is loaded at once, by itself.
        reload: its sources are watched.
        unresponsive_s: seconds of silence after which the gateway is replaced.
        limits: how long a replica may start, drain and stop.
    """

    target: str
    application: bool
    finds_models: bool
    reload: bool
    unresponsive_s: float
    limits: Limits


class Supervision(Generic[Content]):
    """One server, from its first process to the order to stop.

    Attributes:
        book: its replicas.
        revisions: of the application.
        stopping: nothing is started, replaced or told of any more.
        failed: it stops because it cannot serve, or at once, with whatever was in flight.
        wrongly_asked: it cannot serve because there is nothing where it was to look.
    """

    def __init__(self, charge: Charge) -> None:
        self.book = ReplicaBook()
        self.revisions: Revisions[Content] = Revisions()
        self.stopping = False
        self.failed = False
        self.wrongly_asked = False
        self._stopped_at: float | None = None  # when a person wanted that last
        self._charge = charge
        self._gateway = GatewayWatch(unresponsive_s=charge.unresponsive_s, start_s=charge.limits.start_s)
        self._backoff = StartBackoff()
        self._not_ready: Sequence[str] = ()  # models of the repository
        self._none_ready = False  # they are all of it
        self._seed_missing: Start | None = None  # it could not be started
        self._ran: set[tuple[str, int]] = set()  # of which service and revision a replica was ready
        self._seen = SeenFailures()
        self._orders: list[Order[Content]] = []

    def take_orders(self) -> list[Order[Content]]:
        """What is to be carried out, in this order, since the last call."""
        taken, self._orders = self._orders, []
        return taken

    # The gateway

    def gateway_starts(self) -> None:
        """A gateway is being started, which has loaded nothing."""
        self.revisions.gateway_started()

    def gateway_started(self, now: float) -> None:
        """Its process runs. It is told what serves first, then the change, then what an earlier one was told."""
        self._gateway.started(now)
        if not self.revisions.switched:
            self._deploy(self.revisions.serving)
        self._deploy(self.revisions.wanted)
        for replica in self.book.all():
            if replica.state is ReplicaState.DRAINING:
                self._order(WithdrawReplica(replica.replica_id))

    def gateway_heard(self, now: float) -> None:
        """It shows that it lives."""
        self._gateway.heard(now)

    def gateway_loaded(self, revision: int, now: float, *, not_ready: Sequence[str], none_ready: bool = False) -> None:
        """It has loaded the models of a revision (0: of the repository), but for some, or all."""
        self.revisions.gateway_loaded(revision)
        self.book.restart_starts(now)  # they may have waited for models until now
        self._not_ready, self._none_ready = not_ready, none_ready

    def no_model_found(
        self, python_files: Sequence[str] = (), *, repositories: Sequence[str] = (), broken: bool = False
    ) -> None:
        """The repository is empty, with which no server starts, or all in it is `broken`.

        What may have been meant: files of services that lie in it, and folders in it that are repositories themselves.
        """
        meant_other = python_files or repositories
        if self._charge.application or not self._charge.finds_models or (broken and not meant_other):
            return
        folder = self._charge.target
        none = f"no model of {folder} can be served" if broken else f"there is no model in {folder}"
        meant = f". There are models in {repositories[0]}: `trilith serve {repositories[0]}`" if repositories else ""
        meant += f". A service is served by its file: `trilith serve {python_files[0]}`" if python_files else ""
        if broken or self.revisions.announced:
            self._tell(f"{none}: a model is a folder NAME/VERSION/model.onnx{meant}", "warning")
            return
        later = ". For models that come later there are --model-control-mode explicit and poll" if not meant else ""
        self._tell(f"{none}: a model is a folder NAME/VERSION/model.onnx{meant}{later}", "error")
        self.wrongly_asked = True
        self._give_up()

    def gateway_failed(self, reason: str) -> None:
        """It says that it cannot start."""
        self._tell(f"the gateway cannot start: {reason}", "error")
        self._give_up()

    def unprepared(self, revision: int, reason: str) -> None:
        """It cannot serve a revision."""
        wanted = self.revisions.wanted
        if wanted is not None and wanted.number == revision:
            self._tell(f"{self._charge.target} cannot be served: {reason}", "error")
            self._drop_change()

    def look_at_gateway(self, pid: int, now: float) -> None:
        """Time has passed: a gateway that is not heard is ended."""
        silent_s = None if self.stopping else self._gateway.silent_for(now)
        if silent_s is not None:
            self._gateway.ends()
            self._tell(f"killing the gateway (pid {pid}): it was not heard for {silent_s:.1f} s", "error")
            self._order(KillGateway())

    def gateway_exited(self, cause: str, now: float) -> None:
        """Its process ended."""
        if self.stopping:
            return
        not_before = self._gateway.exited(now, served=self.revisions.gateway_served)
        if not_before is None:
            self._tell("the gateway ended again and again; giving up", "error")
            self._give_up()
            return
        self._tell(f"the gateway ended ({cause}); starting another, replicas keep running", "error")
        self._order(StartGateway(not_before))

    def gateway_not_started(self, reason: str, now: float) -> None:
        """Its process could not be started: tried again as if it had ended at once."""
        self._tell(reason, "error")
        if self.stopping:
            return
        not_before = self._gateway.exited(now, served=False)
        if not_before is None:
            self._tell("the gateway could not be started again and again; giving up", "error")
            self._give_up()
            return
        self._order(StartGateway(not_before))

    # Replicas

    def replica_not_started(self, start: Start, reason: str, now: float) -> None:
        """The process that was ordered could not be started: tried again later, and for ever while others serve.

        Of several that were ordered at once, one counts.
        """
        key = start.service, start.revision
        if self.stopping or now < self._backoff.not_before(key):
            return
        self._tell(reason, "error")
        self._backoff.exited(key, ready_for_s=0.0 if self.book.running(*key) else None, now=now)
        if start.service != SEED:
            self._check_given_up(*key)
        elif start.revision == self.revisions.newest:
            if self._backoff.given_up(key):
                self._not_loaded()
            else:
                self._seed_missing = start

    def replica_started(self, start: Start, *, replica_id: int, pid: int, now: float) -> None:
        """The process that was ordered runs; its id is one of `book.new_id`."""
        self.book.add(
            Replica(replica_id=replica_id, service=start.service, revision=start.revision, pid=pid, since=now)
        )

    def described(self, replica_id: int, revision: Revision[Content], now: float, *, bounded: bool) -> None:
        """The first worker of a revision tells what the application is, before anything of it is constructed.

        `bounded`: a replica of its root needs a bound on its threads, which this process was started without.
        """
        replica = self.book.get(replica_id)
        if replica is None:
            return
        wanted = self.revisions.described(revision)
        self._forget_the_dead()
        if wanted and not bounded:
            replica.service = revision.desired[0].service
        elif replica.state is ReplicaState.STARTING:
            self._stop(replica, ReplicaEvent.DRAIN, now)  # out of date, or its libraries were loaded without the bound
        if wanted:
            self._deploy(revision)

    def _forget_the_dead(self) -> None:
        """Of revisions that start nothing any more nothing is kept: there may be one a minute, for months."""
        live = self.revisions.live
        self._ran = {key for key in self._ran if key[1] in live}
        self._backoff.keep(lambda key: isinstance(key, tuple) and key[1] in live)

    def deploying(self, replica_id: int, what: str, timeout_s: float, now: float) -> None:
        """Before a revision is described, something is done once, which may take so long; "": it is over."""
        replica = self.book.get(replica_id)
        if replica is not None and replica.state is ReplicaState.STARTING:
            replica.deploys = what
            replica.since = now + timeout_s  # its own time counts from when that must have ended

    def replica_serving(self, replica_id: int, now: float) -> None:
        """The gateway can call it."""
        replica = self.book.get(replica_id)
        if replica is not None and replica.state is ReplicaState.STARTING:
            self.book.event(replica, ReplicaEvent.READY, now)
            self._ran.add((replica.service, replica.revision))

    def replica_idle(self, replica_id: int, now: float) -> None:
        """The gateway has nothing at it any more."""
        replica = self.book.get(replica_id)
        if replica is not None and replica.state is ReplicaState.DRAINING:
            self._stop(replica, ReplicaEvent.IDLE, now)

    def replica_unwell(self, replica_id: int, reason: str, now: float) -> None:
        """It lives and is no good: it is ended, and so replaced."""
        replica = self.book.get(replica_id)
        if replica is None:
            return
        if replica.killed:  # it is slow to die: told and counted already
            self._kill(replica, now)
            return
        replica.killed = True
        name = replica.service or self._charge.target
        self._tell(f"killing a replica of {name} (pid {replica.pid}): {reason}", "error")
        if replica.state is ReplicaState.STARTING:
            replica.failure = reason
            self._backoff.exited((replica.service, replica.revision), ready_for_s=None, now=now)
        else:
            self.book.count_restart(replica.service)
        self._kill(replica, now)

    def replica_failed(self, replica_id: int, reason: str, detail: str) -> None:
        """It says that it cannot start; `detail` is told once for all that fail alike."""
        replica = self.book.get(replica_id)
        if replica is None:
            return
        replica.failure = reason
        who = replica.service or self._charge.target
        line = reason if reason.startswith(f"{who}: ") else f"{who}: {reason}"
        is_new = self._seen.is_new(replica.revision, line, live=self.revisions.live)
        self._tell(line, "error", detail if is_new else "")

    def replica_exited(self, replica_id: int, cause: str, now: float) -> None:
        """Its process ended."""
        replica = self.book.get(replica_id)
        if replica is None:
            return
        expected = replica.state in (ReplicaState.STOPPING, ReplicaState.DRAINING)
        ready_for_s = None if replica.ready_at is None else now - replica.ready_at
        self.book.event(replica, ReplicaEvent.EXITED, now)
        if self.stopping:
            return
        if replica.service == SEED:
            if not expected or replica.failure:
                self._seed_failed(replica, cause)
            return
        if not expected:
            key = replica.service, replica.revision
            explained = bool(replica.failure) and key not in self._ran
            self._backoff.exited(key, ready_for_s=ready_for_s, now=now, explained=explained)
            self.book.count_restart(replica.service)
            if not explained:
                self._tell(f"a replica of {replica.service} (pid {replica.pid}) ended: {cause}", "error")
        # An expected end may be that of one which took too long to start.
        self._check_given_up(replica.service, replica.revision)

    # Changes

    def sources_changed(self, names: Sequence[str], now: float) -> None:
        """Files of the application changed. What still loads an earlier state of them is out of date."""
        self._tell(f"changed: {', '.join(names)}; starting revision {self.revisions.newest + 1}")
        for replica in self.book.all():
            if replica.service == SEED:
                self._kill(replica, now)

    def sources_not_kept(self, reason: str) -> None:
        """The change cannot be loaded, because its sources cannot be kept."""
        self._tell(reason, "error")
        if self.revisions.serving is None:
            self._cannot_serve()

    def _seed_failed(self, replica: Replica, cause: str) -> None:
        """The first worker of a revision died before it could say what the application is."""
        if not replica.failure:
            during = f"while {replica.deploys} ran" if replica.deploys else "before it had loaded the target"
            self._tell(f"{self._charge.target}: the worker ended {during}: {cause}", "error")
        self._not_loaded()

    def _not_loaded(self) -> None:
        """It cannot be known what the newest revision is."""
        if self.revisions.wanted is None:
            self._cannot_serve()
        else:
            self._tell("the change cannot be loaded; the revision before it keeps serving", "error")

    def _check_given_up(self, service: str, revision: int) -> None:
        key = service, revision
        wanted = self.revisions.wanted
        if not self._backoff.given_up(key) or wanted is None or revision != wanted.number:
            return  # what is not wanted any more is not missed
        self._tell(
            f"{service} could not be started {self._backoff.failed_starts(key)} times in a row; giving up", "error"
        )
        if not self.revisions.switched or not self.book.running(service, revision):
            self._drop_change()

    def _drop_change(self) -> None:
        """What is wanted cannot be served: back to what serves, or the end when there is nothing else."""
        wanted = self.revisions.wanted
        if not self.revisions.cannot_start():
            self._cannot_serve()
            return
        self._tell("the change cannot be started; the revision before it keeps serving", "error")
        for entry in (*(wanted.desired if wanted is not None else ()), *self.revisions.desired):
            self._backoff.forget((entry.service, entry.revision))
        self._deploy(self.revisions.wanted)

    # Converging

    def converge(self, now: float) -> tuple[list[Start | Order[Content]], float | None]:
        """What brings the replicas towards what is wanted, in order; and when to look again (seconds), if at all."""
        plan = reconcile(
            self.revisions.desired,
            self.revisions.kept,
            self.book.observed(),
            switched=self.revisions.switched,
            loading=not self.revisions.loaded,
            backoff=self._backoff,
            limits=self._charge.limits,
            now=now,
        )
        switched, wake_at = self.revisions.switch(complete=plan.complete), plan.wake_at
        if switched is not None:
            self._order(PublishRevision(switched.number))
            wake_at = now  # what the old revision had is drained in the next round
        steps: list[Start | Order[Content]] = []
        for action in plan.actions:
            if isinstance(action, Start):
                steps += self.take_orders()
                steps.append(action)
            elif isinstance(action, Drain):
                self._drain(action.replica_id, now)
            elif isinstance(action, Stop):
                self._end_drain(action.replica_id, action.reason, now)
            else:
                self.replica_unwell(action.replica_id, action.reason, now)
        seed = self._seed_missing
        if seed is not None and seed.revision == self.revisions.newest:
            not_before = self._backoff.not_before((SEED, seed.revision))
            if now >= not_before:
                self._seed_missing = None
                steps.append(seed)
            else:
                wake_at = not_before if wake_at is None else min(wake_at, not_before)
        return [*steps, *self.take_orders()], wake_at

    def announce(self) -> None:
        """Tells once a revision that everything is up, when it is."""
        if self.revisions.announce(self.book.running):
            self._order(Announce(self.revisions.desired, self._not_ready, self._none_ready))

    def remind(self) -> bool:
        """Says what a start still waits for: silence looks like a hang. False when there is nothing to remind of."""
        if self.stopping or self.revisions.announced:
            return False
        if self.revisions.wanted is None and self._charge.application:
            deploys = next((replica.deploys for replica in self.book.all() if replica.deploys), "")
            waits = f"{deploys} runs" if deploys else f"{self._charge.target} is being imported"
        elif not self.revisions.loaded:
            waits = "models are being loaded"
        else:
            waits = narration.replicas_that_run(self.revisions.desired, self.book.running)
        self._tell(f"still starting: {waits}")
        return True

    # Ending

    def stop(self, now: float, *, terminated: bool) -> None:
        """A person wants it to end; the second time, at once. `terminated`: by SIGTERM, which may come twice for once:
        `timeout` sends it to the process, and then to the process group.
        """
        if self._stopped_at is not None and terminated and now - self._stopped_at < _SAME_SIGNAL_S:
            return
        self._stopped_at = now
        if self.stopping:
            self._tell("ending at once", "warning")
            self.failed = True  # requests may have been thrown away: no end in order
            self._order(KillAll())
        elif self.revisions.ever_announced:
            self._tell(
                f"stopping; requests in flight get up to {plain_number(self._charge.limits.drain_s)} s"
                " (Ctrl-C again ends them at once)"
            )
        self.stopping = True

    def ends(self) -> None:
        """The agent ends, for whatever reason: nothing is started any more."""
        self.stopping = True

    def stopped(self) -> None:
        """Nothing runs any more."""
        if self._stopped_at is not None and self.revisions.ever_announced:
            self._tell("stopped")

    def agent_failed(self, error: BaseException) -> None:
        """A part of the agent itself is broken."""
        self._tell(f"the agent failed: {error!r}", "error")
        self._give_up()

    def _cannot_serve(self) -> None:
        if self._charge.reload:
            self._tell("the application cannot serve as it is; waiting for a change of its files", "error")
        else:
            self._give_up()

    def _give_up(self) -> None:
        self.failed = self.stopping = True

    # Orders

    def _order(self, order: Order[Content]) -> None:
        self._orders.append(order)

    def _tell(self, line: str, level: LogLevel = "info", detail: str = "") -> None:
        self._order(Tell(line, level, detail))

    def _deploy(self, revision: Revision[Content] | None) -> None:
        if revision is not None:
            self._order(DeployRevision(revision, publish=revision is self.revisions.serving))

    def _drain(self, replica_id: int, now: float) -> None:
        replica = self.book.get(replica_id)
        if replica is None:
            return
        if replica.state is ReplicaState.STARTING:
            self._stop(replica, ReplicaEvent.DRAIN, now)
            return
        self.book.event(replica, ReplicaEvent.DRAIN, now)
        self._order(WithdrawReplica(replica_id))

    def _end_drain(self, replica_id: int, reason: str, now: float) -> None:
        """What it still does is ended with an answer; then it has the time that every replica has for its end."""
        replica = self.book.get(replica_id)
        if replica is not None:
            self._tell(f"ending the calls of a replica of {replica.service} (pid {replica.pid}): {reason}", "warning")
            self._stop(replica, ReplicaEvent.OVERDUE, now)

    def _stop(self, replica: Replica, event: ReplicaEvent, now: float) -> None:
        self.book.event(replica, event, now)
        self._order(StopReplica(replica.replica_id, at_once=event is ReplicaEvent.OVERDUE))

    def _kill(self, replica: Replica, now: float) -> None:
        self.book.event(replica, ReplicaEvent.KILL, now)
        self._order(KillReplica(replica.replica_id))
