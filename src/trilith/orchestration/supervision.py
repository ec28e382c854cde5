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

from trilith.core.plain_numbers import plain_number
from trilith.orchestration import narration
from trilith.orchestration.gateway_supervision import Charge, GatewaySupervision
from trilith.orchestration.orders import (
    Content,
    KillAll,
    Order,
    PublishRevision,
)
from trilith.orchestration.reconcile import SEED, Drain, Start, Stop, reconcile
from trilith.orchestration.replicas import Replica
from trilith.orchestration.revisions import Revision
from trilith.orchestration.state import ReplicaEvent, ReplicaState

_SAME_SIGNAL_S = 0.5

__all__ = ["Charge", "Supervision"]


class Supervision(GatewaySupervision[Content]):
    """One server, from its first process to the order to stop.

    Attributes:
        book: its replicas.
        revisions: of the application.
        stopping: nothing is started, replaced or told of any more.
        failed: it stops because it cannot serve, or at once, with whatever was in flight.
        wrongly_asked: it cannot serve because there is nothing where it was to look.
    """

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
