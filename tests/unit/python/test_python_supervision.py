"""What the supervisor of a model's process decides."""

from hypothesis import given
from hypothesis import strategies as st

from trilith.core.backoff import StartBackoff
from trilith.runtime.backends.python.supervision import (
    InstanceState,
    KillProcess,
    LifeLimits,
    LookAgain,
    StartProcess,
    Supervisor,
)

LIMITS = LifeLimits(silent_s=5.0, abandoned_s=3.0, start_s=60.0)


def running(now=0.0, **backoff):
    supervisor = Supervisor(LIMITS, StartBackoff(**backoff))
    supervisor.started(now)
    return supervisor


def test_a_process_that_did_work_is_replaced_at_once():
    supervisor = running()
    supervisor.exited(1.0)
    assert supervisor.state is InstanceState.WAITING
    assert supervisor.decide(1.0, heard_at=1.0, abandoned_since=None) == StartProcess()
    assert supervisor.state is InstanceState.STARTING
    assert supervisor.restarts == {"died": 1}


def test_one_start_at_a_time():
    supervisor = running()
    supervisor.exited(1.0)
    supervisor.decide(1.0, heard_at=1.0, abandoned_since=None)
    assert supervisor.decide(2.0, heard_at=1.0, abandoned_since=None) == LookAgain(61.0)


def test_a_start_that_hangs_is_ended_once_and_counted():
    supervisor = running()
    supervisor.exited(1.0)
    supervisor.decide(1.0, heard_at=1.0, abandoned_since=None)
    assert isinstance(supervisor.decide(61.0, heard_at=60.9, abandoned_since=None), KillProcess)
    assert supervisor.decide(62.0, heard_at=60.9, abandoned_since=None) == LookAgain(None)
    supervisor.exited(62.0)
    assert supervisor.restarts == {"died": 1, "overdue": 1}


def test_a_first_start_is_whoever_loads_to_bound():
    assert Supervisor(LIMITS).decide(1e6, heard_at=0.0, abandoned_since=None) == LookAgain(None)


def test_a_start_without_a_limit_may_take_for_ever():
    supervisor = Supervisor(LifeLimits(start_s=None), StartBackoff())
    supervisor.started(0.0)
    supervisor.exited(1.0)
    supervisor.decide(1.0, heard_at=1.0, abandoned_since=None)
    assert supervisor.decide(1e6, heard_at=1.0, abandoned_since=None) == LookAgain(None)


def test_a_process_that_cannot_start_is_tried_ever_more_slowly_and_comes_back_when_it_can():
    supervisor = running(first_s=1.0, most_s=5.0, most_failing_s=30.0, attempts=4)
    supervisor.exited(0.0)
    now, waits, failing = 0.0, [], []
    while len(waits) < 7:
        decision = supervisor.decide(now, heard_at=now, abandoned_since=None)
        if decision == StartProcess():
            supervisor.exited(now)
        else:
            waits.append(decision.at - now)
            failing.append(supervisor.failing)
            now = decision.at
    assert waits == [2.0, 4.0, 5.0, 16.0, 30.0, 30.0, 30.0]
    assert failing == [False, False, False, True, True, True, True]
    assert supervisor.decide(now, heard_at=now, abandoned_since=None) == StartProcess()
    supervisor.started(now)
    assert not supervisor.failing
    supervisor.exited(now + 20)
    assert supervisor.decide(now + 20, heard_at=now, abandoned_since=None) == StartProcess()


def test_silence_is_the_end_and_its_kind_is_counted():
    supervisor = running()
    assert supervisor.decide(4.9, heard_at=0.0, abandoned_since=None) == LookAgain(5.0)
    decision = supervisor.decide(5.0, heard_at=0.0, abandoned_since=None)
    assert isinstance(decision, KillProcess)
    assert "no sign of life for 5 s" in decision.reason
    assert supervisor.decide(6.0, heard_at=0.0, abandoned_since=None) == LookAgain(None)  # one kill is enough
    supervisor.exited(6.0)
    assert supervisor.restarts == {"silent": 1}


def test_what_nobody_waits_for_is_ended():
    supervisor = running()
    assert supervisor.decide(12.0, heard_at=12.0, abandoned_since=10.0) == LookAgain(13.0)
    assert isinstance(supervisor.decide(13.0, heard_at=13.0, abandoned_since=10.0), KillProcess)
    supervisor.exited(13.0)
    assert supervisor.restarts == {"abandoned": 1}


def test_the_exit_of_a_stopped_instance_is_no_news():
    supervisor = running()
    supervisor.stop()
    supervisor.exited(1.0)
    assert supervisor.state is InstanceState.STOPPED
    assert supervisor.decide(9.0, heard_at=0.0, abandoned_since=0.0) == LookAgain(None)
    assert supervisor.restarts == {}


@given(st.lists(st.tuples(st.sampled_from(["look", "start", "exit"]), st.floats(0.0, 20.0)), max_size=60))
def test_never_two_processes_and_never_a_start_before_its_time(events):
    """Whatever happens, in whatever order: a process is started only when there is none, and the count adds up."""
    supervisor = Supervisor(LIMITS)
    now, processes, started = 0.0, 1, 0
    for event, wait in events:
        now += wait
        if event == "exit" and processes:
            processes -= 1
            supervisor.exited(now)
        elif event == "start" and processes:
            supervisor.started(now)
        elif supervisor.decide(now, heard_at=now, abandoned_since=None) == StartProcess():
            processes += 1
            started += 1
        assert processes <= 1
    assert 0 <= sum(supervisor.restarts.values()) - started <= 1
