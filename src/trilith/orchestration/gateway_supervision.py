"""What follows of everything that happens to the gateway, and the orders that both halves of `supervision` give.

The rules are those of `supervision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from trilith.core.backoff import StartBackoff
from trilith.core.log_options import LogLevel
from trilith.orchestration.gateway_watch import GatewayWatch
from trilith.orchestration.orders import (
    Announce,
    Content,
    DeployRevision,
    KillGateway,
    KillReplica,
    Order,
    StartGateway,
    StopReplica,
    Tell,
    WithdrawReplica,
)
from trilith.orchestration.reconcile import Limits, Start
from trilith.orchestration.replicas import Replica, ReplicaBook
from trilith.orchestration.revisions import Revision, Revisions
from trilith.orchestration.seen_failures import SeenFailures
from trilith.orchestration.state import ReplicaEvent, ReplicaState


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


class GatewaySupervision(Generic[Content]):
    """Its half of `Supervision`."""

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

    # What ends a change, or everything

    def _not_loaded(self) -> None:
        """It cannot be known what the newest revision is."""
        if self.revisions.wanted is None:
            self._cannot_serve()
        else:
            self._tell("the change cannot be loaded; the revision before it keeps serving", "error")

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

    def _cannot_serve(self) -> None:
        if self._charge.reload:
            self._tell("the application cannot serve as it is; waiting for a change of its files", "error")
        else:
            self._give_up()

    def _give_up(self) -> None:
        self.failed = self.stopping = True

    def announce(self) -> None:
        """Tells once a revision that everything is up, when it is."""
        if self.revisions.announce(self.book.running):
            self._order(Announce(self.revisions.desired, self._not_ready, self._none_ready))

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
