from dataclasses import replace
from pathlib import Path

import pytest

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.copies import CopyPlan
from trilith.measure.tune.curves import batch_cap, batch_caps, is_capped
from trilith.measure.tune.decider import Tuner
from trilith.measure.tune.measuring import Load, command_check
from trilith.measure.tune.objective import Figures, Objective, Observation
from trilith.measure.tune.patch import changed_settings, plan_changes
from trilith.measure.tune.report import as_values, explanation, step_line
from trilith.measure.tune.run import Step, TunePlan, TuneResult, tune
from trilith.measure.tune.space import Space, knob
from trilith.measure.tune.state import Entry, SearchState, read_state, search_key, write_state
from trilith.measure.tune.verdict import judge, pareto


def figures(throughput, p99_s=0.1, *, cpu_s=0.01, failed=0.0):
    return Figures(concurrency=8, throughput_per_s=throughput, p50_s=p99_s / 2, p99_s=p99_s, cpu_s=cpu_s, failed=failed)


def seen(*levels, share=1.0, **more):
    return Observation(levels=levels, share=share, **more)


def test_bounds_are_worth_more_than_what_missing_them_gains():
    objective = Objective(p99_s=0.1)
    assert objective.score(figures(100, 0.1)) > objective.score(figures(110, 0.12))
    assert objective.score(figures(110, 0.12)) > objective.score(figures(110, 0.2))
    assert objective.best([figures(300, 0.3), figures(50, 0.05), figures(100, 0.1)]) == figures(100, 0.1)
    assert objective.best([figures(300, 0.3), figures(50, 0.15)]) == figures(50, 0.15)
    assert not objective.meets(figures(100, 0.05, failed=0.2))


def test_the_least_cost_counts_among_those_that_reach_the_rate():
    objective = Objective(kind="cost", rate_per_s=50)
    assert objective.score(figures(60, cpu_s=0.01)) > objective.score(figures(90, cpu_s=0.02))
    assert objective.score(figures(60, cpu_s=0.02)) > objective.score(figures(20, cpu_s=0.01))


def test_only_what_nothing_beats_in_everything_is_a_trade_off():
    told = [figures(100, 0.1), figures(90, 0.2), figures(120, 0.3), figures(100, 0.1, cpu_s=0.02), figures(50, 0.05)]
    assert pareto(told) == {0, 2, 4}


def curve(fixed_s, each_s, *, runs=20):
    return {"m": tuple((rows, fixed_s + each_s * rows, runs) for rows in (1, 2, 4))}


def test_batches_that_can_gain_nothing_are_not_tried():
    batch = knob("models.m.max_batch_size", [1, 2, 4, 8, 16, 32])
    cap = batch_cap(batch, [seen(figures(1), curves=curve(0.001, 0.01))])
    assert cap.value == 4
    assert "4 were not tried: in m one of n takes 1 ms + 10 ms x n" in str(cap)
    assert batch_cap(batch, [seen(figures(1), curves=curve(0.05, 0.001))]) is None
    assert batch_cap(batch, [seen(figures(1), curves=curve(0.001, 0.01, runs=2))]) is None
    assert batch_cap(knob("models.m.instances", [1, 2]), [seen(figures(1), curves=curve(0.001, 0.01))]) is None
    tuner = Tuner(Space([batch]), Objective(), budget=20)
    tuner.observe((1,), seen(figures(100), curves=curve(0.001, 0.01)))
    tried = set()
    while (proposal := tuner.propose()) is not None:
        tried.add(proposal.configuration)
        tuner.observe(proposal.configuration, seen(figures(100), share=proposal.share))
    assert tried <= {(1,), (2,), (4,)}


def test_a_curve_of_one_backend_caps_no_other():
    space = Space(
        [
            knob("models.m.max_batch_size", [1, 2, 4, 8]),
            knob("models.m.backend", ["onnxruntime", "openvino"]),
            knob("A.replicas", [1, 2]),
        ]
    )
    useless, useful = curve(0.0001, 0.01, runs=2000), curve(0.01, 0.001)
    caps = batch_caps(
        space,
        [
            ((4, "onnxruntime", 1), seen(figures(1), curves=useless)),
            ((4, "openvino", 1), seen(figures(1), curves=useful)),
        ],
    )
    assert str(caps[0, ((1, "onnxruntime"),)]).startswith(
        "batches of more than 1 were not tried with models.m.backend=onnxruntime: in m one of n takes"
    )
    assert is_capped(caps, (8, "onnxruntime", 2))
    assert not is_capped(caps, (1, "onnxruntime", 2))
    assert not is_capped(caps, (8, "openvino", 1))


def test_a_search_of_other_code_check_times_or_machine_is_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("one")
    (tmp_path / "check.py").write_text("strict")
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").write_text("weights")
    copy, space, load = CopyPlan(target="app.py:A"), Space([knob("A.cpu", [None, 2])]), Load(path="/read")

    def key(load=load, check="python check.py", copy=copy):
        files = [Path("app.py"), Path("m")]
        return search_key(copy, space, Objective(), load, check=command_check(check), files=files)

    def differs(other):
        return [name for name, digest in before.items() if other[name] != digest]

    before = key()
    assert key() == before
    assert differs(key(replace(load, warmup_s=9.0))) == ["the load"]
    assert differs(key(replace(load, timeout_s=9.0))) == ["the load"]
    assert differs(key(check="python check.py --loose")) == ["the check"]
    (tmp_path / "check.py").write_text("loose")
    assert differs(key()) == ["the check"]
    (tmp_path / "check.py").write_text("strict")
    (tmp_path / "m" / "1" / "model.onnx").write_text("other weights")
    assert differs(key()) == ["the target's files"]
    (tmp_path / "m" / "1" / "model.onnx").write_text("weights")
    (tmp_path / "app.py").write_text("two")
    assert differs(key()) == ["the target's files"]
    (tmp_path / "app.py").write_text("one")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(977)))
    assert differs(key()) == ["the machine"]
    with pytest.raises(SetupError, match=r"gone\.py: cannot be read"):
        search_key(copy, space, Objective(), load, files=[Path("gone.py")])


def result_of(*, interrupted=False):
    space = Space([knob("A.replicas", [1, 2], current=1), knob("A.threads", [4, 8], current=4)])
    tuner = Tuner(space, Objective(p99_s=0.2), budget=4)
    for part in ("search", "final", "final"):
        tuner.observe((2, 4), seen(figures(200)), part)
        tuner.observe((1, 4), seen(figures(100)), part)
    tuner.observe((1, 8), Observation(failure="does not start: no room"))
    return TuneResult(verdict=judge(tuner), tuner=tuner, interrupted=interrupted, resumed=0)


def test_the_winner_is_explained_in_words():
    lines = explanation(result_of())
    assert lines[0].startswith("The best: 200 answers a second, p99 100 ms: 2.00 x the throughput of what there is now")
    assert lines[1].startswith("  A.replicas: 1 -> 2: +")
    assert "  Best as they are: A.threads" in lines
    assert "  A.threads=8: does not start: no room" in lines
    assert explanation(result_of(interrupted=True))[0].startswith("Stopped after 7 of 4 measurements")
    values = as_values(result_of())
    assert values["winner"] == {"A.replicas": 2, "A.threads": 4}
    assert [row["winner"] for row in values["rows"]] == [True, False]


def test_when_no_configuration_keeps_the_bounds_that_is_said():
    tuner = Tuner(Space([knob("A.replicas", [1, 2])]), Objective(p99_s=0.01), budget=4)
    tuner.observe((1,), seen(figures(100)))
    verdict = judge(tuner)
    assert not verdict.meets
    result = TuneResult(verdict=verdict, tuner=tuner, interrupted=False, resumed=0)
    assert explanation(result)[0].startswith("No configuration keeps the bounds (most answers a second with p99 within")
    step = Step(number=1, proposal=tuner.propose(), observation=seen(figures(100)), spent=1)
    assert "misses a bound" in step_line(step, tuner.space, tuner.objective, 4)


def test_what_makes_figures_doubtful_is_told():
    tuner = Tuner(Space([knob("A.replicas", [1, 2])]), Objective(p99_s=1.0), budget=4)
    for throughput in (100, 170, 100, 165, 100):
        tuner.observe((1,), seen(replace(figures(throughput), seconds=0.5, spoiled=True)))
    notes = " ".join(judge(tuner).notes)
    assert "this machine is noisy: one and the same configuration differs by " in notes
    assert "the load generator was at its limit" in notes
    assert "the p99 is that of 50 answers" in notes


def test_a_search_on_disk_is_the_same_search_and_no_other(tmp_path):
    space, objective, load = Space([knob("A.cpu", [None, 2])]), Objective(), Load(path="/read")
    key = search_key(CopyPlan(target="app.py:A"), space, objective, load)
    assert key != search_key(CopyPlan(target="app.py:A"), space, objective, Load(path="/read", concurrency=(4,)))
    entry = Entry(settings={"A.cpu": None}, part="start", observation=seen(figures(5), curves=curve(0.1, 0.2)))
    state = SearchState(search=key, target="app.py:A", objective=str(objective), entries=[entry])
    path = tmp_path / "state.json"
    assert read_state(path, key) is None
    write_state(path, state)
    assert read_state(path, key) == state
    with pytest.raises(InvalidConfig, match=r"holds another search \(app.py:A: most answers a second\); remove it"):
        read_state(path, {**key, "the load": "other"})
    path.write_text("{}")
    with pytest.raises(InvalidConfig, match="is no state of a search"):
        read_state(path, key)
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_what_may_change_the_answers_needs_a_check():
    plan = TunePlan(
        copy=CopyPlan(target="app.py:A"),
        space=Space([knob("models.m.backend", ["onnxruntime", "openvino"])]),
        objective=Objective(),
        load=Load(path="/read"),
    )
    with pytest.raises(InvalidConfig, match=r"models.m.backend: may change what is answered.*--check 'COMMAND'"):
        tune(plan)


def test_a_winner_goes_where_its_settings_stand(tmp_path):
    (tmp_path / "yaml").mkdir()
    (tmp_path / "yaml" / "model.yaml").write_text("instances: 2  # one a core\n")
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "config.pbtxt").write_text('backend: "identity"\n')
    (tmp_path / "bare").mkdir()
    settings = {"models.yaml.instances": 1, "models.triton.instances": 3, "models.bare.session.intra_op_threads": 2}
    file = tmp_path / "trilith.yaml"
    changes = plan_changes(settings, settings_file=file, repository=tmp_path)
    assert {change.path.relative_to(tmp_path).as_posix(): change.after for change in changes} == {
        "yaml/model.yaml": "instances: 1  # one a core\n",
        "trilith.yaml": "models:\n  triton:\n    instances: 3\n",
        "bare/model.yaml": "session:\n  intra_op_threads: 2\n",
    }
    assert "-instances: 2  # one a core\n+instances: 1  # one a core\n" in changes[0].diff
    for change in changes:
        change.write()
    assert plan_changes(settings, settings_file=file, repository=tmp_path) == []
    (change,) = plan_changes({"models.yaml.instances": 4}, settings_file=file)
    assert change.after == "models:\n  triton:\n    instances: 3\n  yaml:\n    instances: 4\n"


def test_only_what_differs_from_now_is_written():
    space = Space([knob("A.replicas", [1, 2], current=1), knob("A.threads", [4, 8], current=8), knob("A.cpu", [1, 2])])
    assert changed_settings(space, (2, 8, 1)) == {"A.replicas": 2, "A.cpu": 1}
