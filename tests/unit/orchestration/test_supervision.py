"""Processes that start, fail, die and hang in any order: no change ends what serves, and a good one serves.

The test plays the operating system: it carries out the orders, and makes things happen to the processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from trilith.orchestration import orders
from trilith.orchestration.reconcile import SEED, DesiredService, Limits, Start
from trilith.orchestration.revisions import Revision
from trilith.orchestration.state import ReplicaState
from trilith.orchestration.supervision import Charge, Supervision

LIMITS = Limits(start_s=20.0, drain_s=10.0, stop_s=5.0)


def charge(**given) -> Charge:
    values = {"application": True, "finds_models": False, "reload": True, "unresponsive_s": 30.0, "limits": LIMITS}
    return Charge(target="app:Echo", **(values | given))


def revision(number: int, services: dict[str, int]) -> Revision[str]:
    desired = tuple(DesiredService(service=name, replicas=count, revision=number) for name, count in services.items())
    return Revision(number=number, desired=desired, content=f"code {number}")


@dataclass(eq=False)
class Worker:
    replica_id: int
    service: str
    revision: int
    told_to_end: bool = False
    removed: bool = False
    serves: bool = False


@dataclass(eq=False)
class Gateway:
    to_load: list[int] = field(default_factory=list)
    loaded: set[int] = field(default_factory=set)
    published: int = 0


class World(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 100.0
        self.sup: Supervision[str] = Supervision(charge())
        self.workers: dict[int, Worker] = {}
        self.gateway: Gateway | None = None
        self.gateway_not_before: float | None = 100.0
        self.lines: list[str] = []
        self.announced = 0
        self.gateway_gave_up = False
        self.failing = 0  # so many starts are refused by the system

    # Carrying out

    def carry_out(self, steps=None):
        for step in self.sup.take_orders() if steps is None else steps:
            match step:
                case Start():
                    self.start(step)
                case orders.Tell():
                    self.lines.append(step.line)
                case orders.Announce():
                    self.announced += 1
                    for entry in step.desired:
                        assert self.sup.book.running(entry.service, entry.revision) >= entry.replicas
                case orders.DeployRevision():
                    if self.gateway is not None:
                        self.gateway.to_load.append(step.revision.number)
                        if step.publish:
                            self.gateway.published = step.revision.number
                case orders.PublishRevision():
                    wanted = self.sup.revisions.wanted
                    assert wanted is not None
                    assert step.revision == wanted.number
                    for entry in wanted.desired:
                        assert self.sup.book.running(entry.service, entry.revision) >= entry.replicas
                    if self.gateway is not None:
                        assert step.revision in self.gateway.loaded
                        self.gateway.published = step.revision
                case orders.WithdrawReplica():
                    worker = self.workers[step.replica_id]
                    serving = self.sup.revisions.serving
                    assert serving is not None
                    assert (worker.service, worker.revision) not in {(d.service, d.revision) for d in serving.desired}
                    worker.removed = True
                case orders.StopReplica() | orders.KillReplica():
                    self.workers[step.replica_id].told_to_end = True
                case orders.StartGateway():
                    assert self.gateway is None
                    self.gateway_not_before = step.not_before
                case _:
                    pytest.fail(f"nobody asked for {step}")

    def is_refused(self):
        self.failing -= self.failing > 0
        return self.failing > 0

    def start(self, order):
        if self.is_refused():
            self.sup.replica_not_started(order, "Resource temporarily unavailable", self.now)
            self.carry_out()
            return
        replica_id = self.sup.book.new_id()
        self.workers[replica_id] = Worker(replica_id, order.service, order.revision)
        self.sup.replica_started(order, replica_id=replica_id, pid=1000 + replica_id, now=self.now)

    def exit(self, worker, cause="exit code 1"):
        del self.workers[worker.replica_id]
        self.sup.replica_exited(worker.replica_id, cause, self.now)
        self.carry_out()

    # What people and processes do

    @initialize()
    def begin(self):
        self.gateway_starts()
        self.start(Start(SEED, self.sup.revisions.begin()))

    @precondition(lambda self: self.gateway_not_before is not None)
    @rule()
    def gateway_starts(self):
        self.now = max(self.now, self.gateway_not_before)
        self.gateway_not_before = None
        self.sup.gateway_starts()
        if self.is_refused():
            self.sup.gateway_not_started("Resource temporarily unavailable", self.now)
            self.gateway_gave_up = self.sup.failed
            self.carry_out()
            return
        self.gateway = Gateway()
        self.sup.gateway_started(self.now)
        self.carry_out()

    @precondition(lambda self: self.gateway is not None and self.gateway.to_load)
    @rule(fails=st.booleans())
    def gateway_loads(self, fails=False):
        number = self.gateway.to_load.pop(0)
        self.sup.gateway_heard(self.now)
        if fails:
            self.sup.unprepared(number, "no such model")
        else:
            self.gateway.loaded.add(number)
            self.sup.gateway_loaded(number, self.now, not_ready=[])
        self.carry_out()

    @precondition(lambda self: self.gateway is not None)
    @rule()
    def gateway_exits(self):
        self.gateway = None
        self.sup.gateway_exited("killed by SIGKILL", self.now)
        self.gateway_gave_up = self.sup.failed
        self.carry_out()

    @rule(times=st.integers(0, 12))
    def the_system_is_short_of_something(self, times):
        self.failing = times

    @rule()
    def change(self):
        self.sup.sources_changed(["echo.py"], self.now)
        self.carry_out()
        self.start(Start(SEED, self.sup.revisions.begin()))

    def some(self, data, chosen):
        return data.draw(st.sampled_from([worker for worker in self.workers.values() if chosen(worker)]))

    def seeds(self):
        return [worker for worker in self.workers.values() if worker.service == SEED]

    @precondition(lambda self: self.seeds())
    @rule(data=st.data(), services=st.dictionaries(st.sampled_from("AB"), st.integers(1, 2), min_size=1))
    def describes(self, data, services, bounded=None):
        worker = self.some(data, lambda worker: worker.service == SEED) if data is not None else self.seeds()[-1]
        bounded = data.draw(st.booleans()) if data is not None else bounded
        self.sup.described(worker.replica_id, revision(worker.revision, services), self.now, bounded=bounded)
        replica = self.sup.book.get(worker.replica_id)
        worker.service = replica.service or "(over)"
        self.carry_out()

    def can_serve(self, worker):
        return self.gateway is not None and worker.service not in (SEED, "(over)") and not worker.serves

    @precondition(lambda self: any(self.can_serve(worker) for worker in self.workers.values()))
    @rule(data=st.data())
    def serves(self, data, worker=None):
        worker = worker or self.some(data, self.can_serve)
        worker.serves = True
        self.sup.replica_serving(worker.replica_id, self.now)
        self.carry_out()

    @precondition(lambda self: any(worker.removed for worker in self.workers.values()))
    @rule(data=st.data())
    def is_idle(self, data, worker=None):
        worker = worker or self.some(data, lambda worker: worker.removed)
        self.sup.replica_idle(worker.replica_id, self.now)
        self.carry_out()

    @precondition(lambda self: any(worker.told_to_end for worker in self.workers.values()))
    @rule(data=st.data())
    def ends_as_told(self, data, worker=None):
        self.exit(worker or self.some(data, lambda worker: worker.told_to_end), "exit code 0")

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def dies(self, data):
        self.exit(self.some(data, lambda worker: True))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def cannot_start(self, data):
        worker = self.some(data, lambda worker: True)
        self.sup.replica_failed(worker.replica_id, "it raises", "Traceback: ...")
        self.exit(worker)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def is_unwell(self, data):
        self.sup.replica_unwell(self.some(data, lambda worker: True).replica_id, "it was not heard", self.now)
        self.carry_out()

    @rule(passed_s=st.sampled_from([0.0, 0.0, 0.5, 6.0, 25.0]))
    def converges(self, passed_s=0.0):
        self.now += passed_s
        for _ in range(20):
            steps, wake_at = self.sup.converge(self.now)
            self.carry_out(steps)
            self.sup.announce()
            self.carry_out()
            if wake_at is None or wake_at > self.now:
                return
        pytest.fail("it does not come to rest")

    # What holds

    @invariant()
    def nothing_that_is_out_of_date_is_loaded_still(self):
        """But for the newest change; older ones are on their way out."""
        assert all(seed.told_to_end or seed.revision == self.sup.revisions.newest for seed in self.seeds())

    @invariant()
    def the_book_has_what_runs(self):
        assert {replica.replica_id for replica in self.sup.book.all()} == set(self.workers)

    @invariant()
    def it_goes_on(self):
        assert self.sup.failed == self.sup.stopping == self.gateway_gave_up

    @invariant()
    def the_gateway_serves_what_serves(self):
        serving = self.sup.revisions.serving
        if self.gateway is not None and serving is not None:
            assert self.gateway.published == serving.number

    def teardown(self):
        """Whatever happened: a good change is served by its replicas and by nobody else."""
        if self.sup.stopping:
            return
        before = self.announced
        self.failing = 0
        if self.gateway_not_before is not None:
            self.gateway_starts()
        self.change()
        self.describes(None, {"A": 2, "B": 1}, bounded=True)
        for _ in range(30):
            self.converges(1.0)
            while self.gateway.to_load:
                self.gateway_loads(fails=False)
            for worker in list(self.workers.values()):
                if worker.told_to_end:
                    self.ends_as_told(None, worker)
                elif worker.removed:
                    self.is_idle(None, worker)
                elif self.can_serve(worker):
                    self.serves(None, worker)
        newest = self.sup.revisions.newest
        assert self.gateway.published == newest
        assert self.announced == before + 1
        assert sorted((worker.service, worker.revision) for worker in self.workers.values()) == [
            ("A", newest),
            ("A", newest),
            ("B", newest),
        ]
        assert all(replica.state is ReplicaState.RUNNING for replica in self.sup.book.all())


TestSupervision = World.TestCase
TestSupervision.settings = settings(stateful_step_count=40)


def supervised(**given) -> Supervision[str]:
    """A server whose gateway and first worker were started at the instant 0."""
    sup: Supervision[str] = Supervision(charge(**given))
    sup.gateway_starts()
    sup.gateway_started(0.0)
    sup.replica_started(Start(SEED, sup.revisions.begin()), replica_id=sup.book.new_id(), pid=1001, now=0.0)
    assert sup.take_orders() == []
    return sup


def told(sup: Supervision[str]) -> list[str]:
    return [order.line for order in sup.take_orders() if isinstance(order, orders.Tell)]


def test_without_reload_a_target_that_cannot_be_loaded_is_the_end():
    sup = supervised(reload=False)
    sup.replica_failed(1, "it raises", "Traceback: ...")
    sup.replica_exited(1, "exit code 1", 1.0)
    assert sup.failed
    assert told(sup) == ["app:Echo: it raises"]
    silent = supervised(reload=False)
    silent.replica_exited(1, "exit code 1", 1.0)
    assert silent.failed
    assert told(silent) == ["app:Echo: the worker ended before it had loaded the target: exit code 1"]


@pytest.mark.parametrize("served", [True, False])
def test_a_process_that_the_system_does_not_start_is_tried_again_ever_more_slowly(served):
    sup = supervised(reload=False)
    sup.described(1, revision(1, {"A": 3}), 0.0, bounded=False)
    sup.gateway_loaded(1, 0.0, not_ready=[])
    if served:
        sup.replica_serving(1, 0.0)
    else:
        sup.replica_exited(1, "killed by SIGKILL", 0.0)
    now, waits, lines = 0.0, [], []
    while not sup.stopping and len(waits) < 20:
        steps, wake_at = sup.converge(now)
        starts = [step for step in steps if isinstance(step, Start)]
        if not starts:
            waits.append(round(wake_at - now, 6))
            now = wake_at
            continue
        assert starts == [Start("A", 1)] * (2 if served else 3)
        for start in starts:
            sup.replica_not_started(start, "no process for A: no memory", now)
        lines += told(sup)
    assert waits == sorted(waits)
    assert "no process for A: no memory" in lines
    if served:
        assert not sup.stopping
        assert waits[-1] == 10.0
    else:
        assert sup.failed
        assert len(waits) == 5
        assert lines[-1] == "A could not be started 6 times in a row; giving up"
        assert len(lines) == 6, "of several at once, one counts"


def test_the_first_worker_and_the_gateway_are_tried_again_too():
    sup: Supervision[str] = Supervision(charge(reload=False))
    sup.gateway_starts()
    sup.gateway_not_started("no process for the gateway: no memory", 0.0)
    line, again = sup.take_orders()
    assert line == orders.Tell("no process for the gateway: no memory", "error")
    assert isinstance(again, orders.StartGateway)
    assert again.not_before > 0.0
    seed = Start(SEED, sup.revisions.begin())
    sup.replica_not_started(seed, "no process for the worker: no memory", 0.0)
    steps, wake_at = sup.converge(0.0)
    assert steps == [orders.Tell("no process for the worker: no memory", "error")]
    assert wake_at is not None
    assert wake_at > 0.0
    assert sup.converge(wake_at)[0] == [seed]
    assert sup.converge(wake_at)[0] == []
    for _ in range(5):
        assert not sup.stopping
        sup.replica_not_started(seed, "no process for the worker: no memory", wake_at)
        _, wake_at = sup.converge(wake_at)
        wake_at = wake_at or 0.0
    assert sup.failed


def test_with_reload_the_next_change_may_mend_it():
    sup = supervised()
    sup.replica_failed(1, "it raises", "")
    sup.replica_exited(1, "exit code 1", 1.0)
    assert not sup.stopping
    assert told(sup)[-1] == "the application cannot serve as it is; waiting for a change of its files"
    sup.sources_not_kept("the disk is full")
    assert told(sup)[0] == "the disk is full"
    assert not sup.stopping


def watch(sup, begin, end):
    """The agent looks at the gateway as often as it does, and at the end."""
    now = begin
    while now < end:
        sup.look_at_gateway(7, now)
        now += 2.5
    sup.look_at_gateway(7, end)


def test_a_gateway_that_is_not_heard_is_replaced_and_not_for_ever():
    sup = supervised(unresponsive_s=10.0)
    watch(sup, 0.0, LIMITS.start_s - 0.1)
    assert sup.take_orders() == [], "it starts"
    at = LIMITS.start_s
    sup.gateway_heard(at)
    watch(sup, at, at + 12.4)  # it may have got stuck just before its next word, 2.5 s later
    assert sup.take_orders() == []
    sup.look_at_gateway(7, at + 12.5)
    assert sup.take_orders() == [
        orders.Tell("killing the gateway (pid 7): it was not heard for 12.5 s", "error"),
        orders.KillGateway(),
    ]
    now, instants = at + 15.0, []
    while True:
        sup.gateway_exited("killed by SIGKILL", now)
        sup.look_at_gateway(7, now)  # there is none to look at
        given = sup.take_orders()
        if sup.failed:
            assert given == [orders.Tell("the gateway ended again and again; giving up", "error")]
            break
        line, again = given
        assert line == orders.Tell(
            "the gateway ended (killed by SIGKILL); starting another, replicas keep running", "error"
        )
        assert isinstance(again, orders.StartGateway)
        instants.append(again.not_before - now)
        now = again.not_before
        sup.gateway_starts()
        sup.gateway_started(now)
        watch(sup, now, now + LIMITS.start_s - 0.1)
        assert sup.take_orders() == []
        sup.look_at_gateway(7, now + LIMITS.start_s)
        assert orders.KillGateway() in sup.take_orders()
    assert instants == sorted(instants)
    assert len(instants) == 5


def test_a_gateway_that_ends_is_not_listened_for():
    sup = supervised(unresponsive_s=10.0)
    sup.gateway_heard(5.0)
    watch(sup, 0.0, 17.5)
    assert len(sup.take_orders()) == 2
    sup.look_at_gateway(7, 20.0)
    assert sup.take_orders() == [], "it is being killed"
    ending = supervised(unresponsive_s=10.0)
    ending.gateway_heard(5.0)
    ending.stop(6.0, terminated=True)
    ending.take_orders()
    ending.look_at_gateway(7, 100.0)
    ending.gateway_exited("exit code 0", 101.0)
    ending.look_at_gateway(7, 200.0)
    assert ending.take_orders() == []


def test_a_server_that_was_stopped_as_a_whole_and_continued_ends_nothing():
    """Ctrl-Z and `fg`, `docker pause`: the agent heard nobody because it was stopped itself."""
    sup = supervised(unresponsive_s=10.0)
    sup.gateway_heard(5.0)
    watch(sup, 5.0, 10.0)
    watch(sup, 1000.0, 1012.4)
    assert sup.take_orders() == []
    sup.look_at_gateway(7, 1012.5)
    assert orders.KillGateway() in sup.take_orders(), "it did not come back"


def test_a_new_gateway_is_told_what_serves_then_the_change_then_who_leaves():
    sup = supervised()
    first, second = revision(1, {"A": 1}), revision(2, {"A": 1})
    sup.described(1, first, 0.0, bounded=False)
    sup.gateway_loaded(1, 0.0, not_ready=[])
    sup.replica_serving(1, 0.0)
    sup.replica_started(Start(SEED, sup.revisions.begin()), replica_id=sup.book.new_id(), pid=1002, now=0.0)
    sup.described(2, second, 0.0, bounded=False)
    sup.gateway_loaded(2, 0.0, not_ready=[])
    sup.take_orders()
    sup.gateway_starts()
    sup.gateway_started(1.0)
    assert sup.take_orders() == [
        orders.DeployRevision(first, publish=True),
        orders.DeployRevision(second, publish=False),
    ]
    sup.replica_serving(2, 1.0)
    assert sup.converge(1.0)[0] == [], "what an earlier gateway had loaded is of no use to this one"
    sup.gateway_loaded(2, 1.0, not_ready=[])
    steps, wake_at = sup.converge(1.0)
    assert steps == [orders.PublishRevision(2)]
    assert wake_at == 1.0, "the old revision is drained in the next round"
    steps, _ = sup.converge(1.0)
    assert steps == [orders.WithdrawReplica(1)]
    sup.gateway_starts()
    sup.gateway_started(2.0)
    assert sup.take_orders() == [orders.DeployRevision(second, publish=True), orders.WithdrawReplica(1)]


def test_one_traceback_is_told_once_and_one_failure_names_who():
    sup = supervised()
    sup.described(1, revision(1, {"A": 2}), 0.0, bounded=True)
    assert orders.StopReplica(1) in sup.take_orders(), "its libraries were loaded without the bound on their threads"
    steps, _ = sup.converge(0.0)
    for start in steps:
        assert isinstance(start, Start)
        sup.replica_started(start, replica_id=sup.book.new_id(), pid=1, now=0.0)
    sup.replica_failed(2, "it raises", "Traceback: ...")
    sup.replica_failed(3, "A: it raises", "Traceback: ...")
    told = [order for order in sup.take_orders() if isinstance(order, orders.Tell)]
    assert told == [orders.Tell("A: it raises", "error", "Traceback: ..."), orders.Tell("A: it raises", "error")]


def test_what_a_start_waits_for_is_said():
    sup = supervised()
    assert sup.remind()
    sup.described(1, revision(1, {"A": 1}), 0.0, bounded=False)
    assert sup.remind()
    sup.gateway_loaded(1, 0.0, not_ready=["m"])
    assert sup.remind()
    assert told(sup) == [
        "still starting: app:Echo is being imported",
        "still starting: models are being loaded",
        "still starting: A: 0 of 1 replicas run",
    ]
    sup.replica_serving(1, 0.0)
    sup.announce()
    assert sup.take_orders() == [orders.Announce(sup.revisions.desired, ["m"])]
    sup.announce()
    assert sup.take_orders() == []
    assert not sup.remind()


def test_the_second_signal_ends_all_at_once():
    sup = supervised()
    sup.stop(0.0, terminated=False)
    assert sup.stopping
    assert not sup.failed
    assert sup.take_orders() == [], "a person who ends a start is told nothing"
    sup.replica_exited(1, "exit code 0", 1.0)
    sup.gateway_exited("exit code 0", 1.0)
    assert sup.take_orders() == []
    sup.stop(0.1, terminated=False)
    assert sup.take_orders() == [orders.Tell("ending at once", "warning"), orders.KillAll()]
    assert sup.failed


def test_two_terminations_at_once_are_one():
    sup = supervised()
    sup.stop(10.0, terminated=True)
    sup.stop(10.1, terminated=True)  # `timeout` tells the process, and then its group
    assert sup.stopping
    assert sup.take_orders() == []
    sup.stop(11.0, terminated=True)
    assert sup.take_orders() == [orders.Tell("ending at once", "warning"), orders.KillAll()]


def test_an_empty_folder_is_told_of_only_where_models_are_looked_for():
    folder = supervised(application=False, finds_models=True)
    folder.no_model_found()
    (line,) = told(folder)
    assert line.startswith("there is no model in app:Echo: a model is a folder NAME/VERSION/model.onnx. For models")
    assert (folder.stopping, folder.failed, folder.wrongly_asked) == (True, True, True)
    folder.no_model_found(["./app.py", "./other.py"])
    assert told(folder)[0].endswith(". A service is served by its file: `trilith serve ./app.py`")
    folder.no_model_found(["./app.py"], broken=True)
    assert told(folder)[0].startswith("no model of app:Echo can be served: ")
    folder.no_model_found([], repositories=["models", "others"], broken=True)
    assert told(folder)[0].endswith(". There are models in models: `trilith serve models`")
    folder.no_model_found([], broken=True)  # why is told of each model
    assert told(folder) == []
    broken = supervised(application=False, finds_models=True)
    broken.no_model_found(["./app.py"], broken=True)
    assert not broken.stopping
    for given in ({"application": True, "finds_models": True}, {"application": False, "finds_models": False}):
        other = supervised(**given)
        other.no_model_found()
        assert told(other) == []


def serving(services: dict[str, int], **given) -> Supervision[str]:
    """A server of one revision, all of whose replicas run at the instant 0."""
    sup = supervised(**given)
    sup.described(1, revision(1, services), 0.0, bounded=False)
    sup.gateway_loaded(1, 0.0, not_ready=[])
    begin_wanted(sup, 0.0)
    for replica in sup.book.all():
        sup.replica_serving(replica.replica_id, 0.0)
    sup.announce()
    sup.take_orders()
    return sup


def begin_wanted(sup: Supervision[str], now: float) -> list[int]:
    """Starts what the supervision wants to be started; the ids."""
    steps, _ = sup.converge(now)
    begun = []
    for step in steps:
        if isinstance(step, Start):
            begun.append(sup.book.new_id())
            sup.replica_started(step, replica_id=begun[-1], pid=2000, now=now)
    return begun


def changed(sup: Supervision[str], services: dict[str, int], now: float) -> int:
    """A change that is described by a seed, which is not a replica of it; the id of the seed."""
    number, seed = sup.revisions.begin(), sup.book.new_id()
    sup.replica_started(Start(SEED, number), replica_id=seed, pid=3000, now=now)
    sup.described(seed, revision(number, services), now, bounded=True)
    sup.replica_exited(seed, "exit code 0", now)
    return seed


def fail_to_start(sup: Supervision[str], now: float, *, hangs: bool) -> float:
    """Lets every replica that is started fail, until nothing is tried again; the instant then."""
    for _ in range(20):
        for replica_id in begin_wanted(sup, now):
            if hangs:
                now += LIMITS.start_s
                sup.converge(now)
            sup.replica_exited(replica_id, "exit code 1", now)
        now += 11.0
    return now


@pytest.mark.parametrize("hangs", [False, True])
def test_a_change_that_cannot_start_is_dropped_and_what_serves_stays(hangs):
    sup = serving({"A": 1})
    changed(sup, {"A": 1, "B": 1}, 0.0)
    sup.take_orders()
    fail_to_start(sup, 0.0, hangs=hangs)
    assert sup.revisions.wanted is sup.revisions.serving
    assert sup.revisions.serving.number == 1
    assert sup.book.running("A", 1) == 1
    assert not sup.stopping


def test_a_change_whose_models_there_are_not_is_dropped():
    sup = serving({"A": 1})
    changed(sup, {"A": 1}, 0.0)
    sup.take_orders()
    sup.unprepared(1, "an earlier one is not what is wanted")
    assert sup.take_orders() == []
    sup.unprepared(2, "there is no model m")
    assert sup.take_orders() == [
        orders.Tell("app:Echo cannot be served: there is no model m", "error"),
        orders.Tell("the change cannot be started; the revision before it keeps serving", "error"),
        orders.DeployRevision(sup.revisions.serving, publish=True),
    ]


def test_a_service_of_which_some_replica_runs_is_not_given_up():
    sup = serving({"A": 2}, reload=False)
    one, other = sup.book.all()
    sup.replica_exited(one.replica_id, "exit code 1", 1.0)
    now = fail_to_start(sup, 1.0, hangs=False)
    assert sup.book.all() == [other]
    assert not sup.stopping
    sup.replica_exited(other.replica_id, "exit code 1", now)
    assert not sup.stopping, "it did work"
    fail_to_start(sup, now, hangs=False)
    assert sup.stopping, "the last one is gone, and no other can be started"


def test_what_is_not_wanted_any_more_is_not_missed():
    sup = serving({"A": 2})
    changed(sup, {"A": 1}, 0.0)
    sup.take_orders()
    for now in range(8):
        for replica in sup.book.all():
            if replica.revision == 1:
                sup.replica_exited(replica.replica_id, "exit code 1", now * 20.0)
        begin_wanted(sup, now * 20.0)
    assert sup.revisions.wanted.number == 2


def test_an_older_change_that_is_slower_to_tell_what_it_is_is_not_deployed():
    sup = serving({"A": 1})
    slow, number = sup.book.new_id(), sup.revisions.begin()
    sup.replica_started(Start(SEED, number), replica_id=slow, pid=1, now=0.0)
    changed(sup, {"A": 1}, 0.0)
    sup.take_orders()
    sup.described(slow, revision(number, {"A": 1}), 0.0, bounded=False)
    assert sup.take_orders() == [orders.StopReplica(slow)]


def test_a_target_that_hangs_while_it_loads_is_ended():
    sup = supervised(reload=False)
    steps, _ = sup.converge(LIMITS.start_s)
    assert steps[-1] == orders.KillReplica(1)
    sup.replica_exited(1, "killed by SIGKILL", LIMITS.start_s)
    assert sup.failed


def test_who_leaves_before_it_served_is_stopped_at_once():
    sup = supervised()
    sup.described(1, revision(1, {"A": 1}), 0.0, bounded=False)
    changed(sup, {"A": 1}, 0.0)
    sup.gateway_loaded(2, 0.0, not_ready=[])
    [replica_id] = begin_wanted(sup, 0.0)
    sup.replica_serving(replica_id, 0.0)
    sup.take_orders()
    assert sup.converge(0.0)[0] == [orders.PublishRevision(2)]
    assert sup.converge(0.0)[0] == [orders.StopReplica(1)]
    sup.replica_idle(replica_id, 0.0)
    assert sup.take_orders() == [], "one that serves is idle now and then"


def test_waiting_for_models_is_not_slowness():
    sup = supervised()
    sup.described(1, revision(1, {"A": 1}), 0.0, bounded=False)
    assert sup.converge(LIMITS.start_s * 3)[0] == [orders.DeployRevision(sup.revisions.wanted, publish=True)]
    sup.gateway_loaded(1, LIMITS.start_s * 3, not_ready=[])
    assert sup.converge(LIMITS.start_s * 3.5) == ([], LIMITS.start_s * 4)


def test_deaths_are_counted_by_service():
    sup = serving({"A": 2})
    one, other = sup.book.all()
    sup.replica_exited(one.replica_id, "exit code 1", 1.0)
    sup.replica_unwell(other.replica_id, "it was not heard", 1.0)
    sup.replica_exited(other.replica_id, "killed by SIGKILL", 1.0)
    assert sup.book.restarts("A") == 2
    assert sup.book.restarts("B") == 0


def test_one_that_is_slow_to_die_is_told_and_counted_once():
    sup: Supervision[str] = Supervision(charge())
    sup.replica_started(Start("Echo", 1), replica_id=1, pid=11, now=0.0)
    sup.replica_serving(1, 1.0)
    sup.take_orders()
    sup.replica_unwell(1, "it hangs", 2.0)
    sup.replica_unwell(1, "stopping for more than 5 s", 7.0)
    told = sup.take_orders()
    assert [order.line for order in told if isinstance(order, orders.Tell)] == [
        "killing a replica of Echo (pid 11): it hangs"
    ]
    assert sum(isinstance(order, orders.KillReplica) for order in told) == 2
    assert sup.book.restarts("Echo") == 1


def fails_to_start(sup, replica_id, now, *, reason="no database"):
    sup.replica_started(Start("Echo", 1), replica_id=replica_id, pid=replica_id, now=now)
    if reason:
        sup.replica_failed(replica_id, reason, "")
    sup.replica_exited(replica_id, "exit code 1", now + 0.1)


def started(**given):
    sup: Supervision[str] = Supervision(charge(reload=False, **given))
    sup.revisions.begin()
    sup.replica_started(Start(SEED, 1), replica_id=1, pid=1, now=0.0)
    sup.described(1, revision(1, {"Echo": 1}), 0.0, bounded=False)
    return sup


def test_a_constructor_that_raises_at_the_very_first_start_is_tried_once_more():
    sup = started()
    sup.replica_failed(1, "no database", "")
    sup.replica_exited(1, "exit code 1", 0.1)
    assert not sup.failed
    fails_to_start(sup, 2, 1.0)
    assert sup.failed


def test_the_end_of_one_that_has_said_why_is_not_told_again():
    sup = started()
    sup.take_orders()
    sup.replica_failed(1, "no program", "")
    sup.replica_exited(1, "exit code 1", 0.1)
    fails_to_start(sup, 2, 1.0, reason="no program")
    assert told(sup)[:3] == [
        "Echo: no program",
        "Echo: no program",
        "Echo could not be started 2 times in a row; giving up",
    ]


def test_one_that_dies_without_a_word_is_tried_six_times():
    sup = started()
    sup.replica_exited(1, "killed by SIGKILL", 0.1)
    for replica_id in range(2, 6):
        fails_to_start(sup, replica_id, float(replica_id), reason="")
        assert not sup.failed
    fails_to_start(sup, 6, 100.0, reason="")
    assert sup.failed


def test_a_service_that_has_run_is_tried_six_times_whatever_it_says():
    sup = started()
    sup.replica_serving(1, 1.0)
    sup.replica_exited(1, "killed by SIGKILL", 2.0)
    for replica_id in range(2, 7):
        fails_to_start(sup, replica_id, 10.0 * replica_id)
        assert not sup.failed
    fails_to_start(sup, 7, 100.0)
    assert sup.failed


def test_one_that_drains_for_too_long_ends_its_calls_in_order_and_is_killed_when_it_does_not():
    sup = serving({"A": 1})
    [old] = [replica.replica_id for replica in sup.book.all()]
    changed(sup, {"A": 1}, 0.0)
    sup.gateway_loaded(2, 0.0, not_ready=[])
    [new] = begin_wanted(sup, 0.0)
    sup.replica_serving(new, 0.0)
    sup.take_orders()
    sup.converge(0.0)
    assert sup.converge(0.0)[0] == [orders.WithdrawReplica(old)]
    steps, _ = sup.converge(LIMITS.drain_s)
    assert [step for step in steps if not isinstance(step, orders.Tell)] == [orders.StopReplica(old, at_once=True)]
    sup.replica_idle(old, LIMITS.drain_s)
    assert sup.take_orders() == [], "its calls have their answers; it is stopping already"
    killed_at = LIMITS.drain_s + LIMITS.stop_s + 1.0
    assert sup.converge(killed_at - 0.1)[0] == []
    assert orders.KillReplica(old) in sup.converge(killed_at)[0]
